//! The order in which a client tries servers, by priority and weight (RFC 2782, "Usage rules").

use super::Server;

/// The servers by priority; of one priority each is drawn with the chance that its weight has among those that are left. `random` gives
/// a number below its argument.
pub(super) fn draw(servers: &[Server], mut random: impl FnMut(u64) -> u64) -> Vec<&Server> {
    let mut left: Vec<&Server> = servers.iter().collect();
    // Servers without a weight are first among equals: a draw of 0 finds them, so they have a small chance and not none.
    left.sort_by_key(|server| (server.priority, server.weight > 0));
    let mut drawn = Vec::with_capacity(left.len());
    while let Some(priority) = left.first().map(|server| server.priority) {
        let alike = left.partition_point(|server| server.priority == priority);
        let sum: u64 = left[..alike].iter().map(|server| u64::from(server.weight)).sum();
        // With no weight at all they are equal.
        let place = if sum == 0 { random(alike as u64) as usize } else { by_weight(&left[..alike], random(sum + 1)) };
        drawn.push(left.remove(place));
    }
    drawn
}

/// The first server at which the sum of the weights reaches a number.
fn by_weight(servers: &[&Server], number: u64) -> usize {
    let mut sum = 0;
    let reaches = |server: &&Server| {
        sum += u64::from(server.weight);
        sum >= number
    };
    servers.iter().position(reaches).expect("the number is at most the sum of all weights")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &str, priority: u16, weight: u16) -> Server {
        Server { priority, weight, host: host.to_owned(), port: 1 }
    }

    /// How often each host comes first, and how often in all places together the order is by priority.
    fn firsts(servers: &[Server], draws: u64) -> Vec<u64> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut counts = vec![0; servers.len()];
        for _ in 0..draws {
            let drawn = draw(servers, |bound| {
                // xorshift64
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state % bound
            });
            assert_eq!(drawn.len(), servers.len());
            assert!(drawn.is_sorted_by_key(|server| server.priority));
            let first = servers.iter().position(|server| server == drawn[0]);
            counts[first.expect("one of them")] += 1;
        }
        counts
    }

    #[test]
    fn priority_comes_first_and_weight_shares() {
        let counts = firsts(&[server("a", 10, 60), server("b", 10, 30), server("c", 10, 0), server("d", 5, 1)], 1_000);
        assert_eq!(counts, [0, 0, 0, 1_000], "the lowest number is the best");
        let counts =
            firsts(&[server("a", 1, 60), server("b", 1, 30), server("c", 1, 10), server("d", 2, 60_000)], 10_000);
        let near = |count: u64, share: u64| count.abs_diff(share) < 300;
        assert!(near(counts[0], 6_000) && near(counts[1], 3_000) && near(counts[2], 1_000), "{counts:?}");
    }

    #[test]
    fn servers_without_weight_are_equal_and_are_the_last_beside_others() {
        let counts = firsts(&[server("a", 1, 0), server("b", 1, 0)], 10_000);
        assert!(counts[0].abs_diff(5_000) < 300, "{counts:?}");
        let counts = firsts(&[server("a", 1, 0), server("b", 1, 99)], 10_000);
        assert!((1..300).contains(&counts[0]), "a hundredth: {counts:?}");
        assert_eq!(draw(&[], |_| 0).len(), 0);
    }
}
