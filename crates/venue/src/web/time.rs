//! Times of venues' texts.

/// Nanoseconds since 1970 of `2021-04-17T16:43:37.075687Z`; 0: it is no such time.
pub(super) fn of_text(text: &str) -> u64 {
    read(text).unwrap_or(0)
}

fn read(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, part) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let is_time = (1970..=2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_digits = part.len() <= 9 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_time || !is_digits || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32) };
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(seconds * 1_000_000_000 + part)
}

/// Days since 1970, counted in years that begin in March, so that a leap day is a year's last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year / 4 - year / 100 + year / 400;
    // 719,468 days lie between the first of March of the year 0 and 1970.
    year * 365 + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::of_text;

    #[test]
    fn times_are_counted_from_1970() {
        assert_eq!(of_text("1970-01-01T00:00:00Z"), 0);
        assert_eq!(of_text("2021-04-17T16:43:37.075687Z"), 1_618_677_817_075_687_000);
        assert_eq!(of_text("2000-02-29T23:59:59.5Z"), 951_868_799_500_000_000);
        for none in ["", "2021-04-17", "2021-13-17T00:00:00Z", "2021-04-17T25:00:00Z", "x-y-zTa:b:cZ"] {
            assert_eq!(of_text(none), 0, "{none}");
        }
    }
}
