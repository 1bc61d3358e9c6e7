use super::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn view() -> View {
    let client = |n: usize| {
        json!({ "id": format!("0.{n}"), "address": format!("10.0.0.7:{}", 51_544 + n), "user": "ann", "application": "EMA", "protocol": "rssl",
            "items": 100_000, "queued_bytes": 1_234_567, "connected_s": 86_400, "held_back": false,
            "traffic": { "received_bytes": 0, "sent_bytes": 5_000, "round_trip_us": 4_321 } })
    };
    let totals =
        json!({ "clients": 1, "items": 100_000, "watchers": 100_000, "updates_in": 5000, "updates_out": 5000 });
    let process = json!({ "role": "serve", "version": "0.1.0", "host": "md1", "uptime_s": 3_725, "totals": totals,
        "threads": [{ "bytes_received": 10, "bytes_sent": 20, "latency_p50_us": 20.0, "latency_p99_us": 50.0 }] });
    let mut view = View { target: "md1:8080".into(), process, ..View::default() };
    view.take((0..60).map(client).collect(), Instant::now());
    view
}

fn drawn(view: &View, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let symbols: Vec<&str> = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
    symbols.chunks(usize::from(width)).map(|line| line.concat().trim_end().to_owned() + "\n").collect()
}

fn press(view: &mut View, keys: &str) {
    for key in keys.chars() {
        let code = match key {
            '\n' => KeyCode::Enter,
            key => KeyCode::Char(key),
        };
        view.key(code, KeyModifiers::NONE);
    }
}

#[test]
fn the_screen_shows_what_the_process_says() {
    let mut view = view();
    view.measure(Instant::now());
    view.process["totals"]["updates_out"] = json!(15_000);
    let (at, counted) = view.last.unwrap();
    view.last = Some((at.checked_sub(Duration::from_secs(1)).unwrap(), counted));
    view.measure(at);
    let mut rows = view.rows.clone();
    rows[0]["traffic"]["sent_bytes"] = json!(25_000);
    let looked = view.looked.unwrap();
    view.take(rows, looked + Duration::from_secs(2));
    let screen = drawn(&view, 120, 20);
    for part in [
        "serve on md1",
        "(md1:8080)",
        "up 1:02:05",
        "10,000 out",
        "100,000 items",
        "0.3",
        "ann",
        "1,234,567",
        "4,321",
        "10,000",
    ] {
        assert!(screen.contains(part), "{part} is not in\n{screen}");
    }
    assert!(view.text().contains("10.0.0.7:51544"));
}

#[test]
fn rows_are_searched_sorted_and_opened() {
    let mut view = view();
    view.list = List::Services;
    let service = |name: &str, waiting: u64, up: bool| json!({ "name": name, "up": up, "waiting": waiting, "providers": [{ "address": "a:1" }] });
    view.take(vec![service("ONE", 30, true), service("TWO", 4, false), service("THREE", 500, true)], Instant::now());
    press(&mut view, "sss");
    let names =
        |view: &View| view.shown_rows().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(view.sorted, Some("waiting"));
    assert_eq!(names(&view), ["TWO", "ONE", "THREE"], "as numbers");
    press(&mut view, "S");
    assert_eq!(names(&view), ["THREE", "ONE", "TWO"]);
    press(&mut view, "/t\n");
    assert_eq!(names(&view), ["THREE", "TWO"], "{}", drawn(&view, 80, 12));
    press(&mut view, "j\n");
    let screen = drawn(&view, 80, 24);
    assert!(screen.contains(" TWO ") && screen.contains("waiting              4"), "{screen}");
    view.key(KeyCode::Esc, KeyModifiers::NONE);
    assert!(view.detail.is_none() && view.search == "t");
    view.key(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(names(&view).len(), 3);
    assert!(matches!(view.key(KeyCode::Esc, KeyModifiers::NONE), Pressed::Leave));
    assert_eq!(List::Items.path("EUR=/x"), "/api/v1/items?limit=1000&contains=EUR%3D%2Fx");
}

#[test]
fn no_figure_of_the_head_is_cut() {
    let view = view();
    for width in 1..200 {
        let screen = drawn(&view, width, 12);
        let words = screen
            .lines()
            .take(3)
            .flat_map(|line| line.split([' ', '(', ')']))
            .filter(|word| word.contains([',', ':', '.']));
        for word in words {
            let whole =
                ["100,000", "1:02:05", "md1:8080", "0.1.0", "updates/s:", "bytes/s:", "in,", "-,", "turns,", "us:"];
            assert!(whole.contains(&word), "{word} at {width}\n{screen}");
        }
    }
}

#[test]
fn keys_and_sizes_at_random_break_no_line() {
    const KEYS: [KeyCode; 16] = [
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Down,
        KeyCode::Up,
        KeyCode::PageDown,
        KeyCode::PageUp,
        KeyCode::End,
        KeyCode::Home,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Backspace,
        KeyCode::Char('2'),
        KeyCode::Char('/'),
        KeyCode::Char('s'),
        KeyCode::Char('S'),
        KeyCode::Char('x'),
    ];
    let mut view = view();
    let mut random = 7_u64;
    for _ in 0..400 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let list = view.list;
        view.key(KEYS[(random >> 33) as usize % KEYS.len()], KeyModifiers::NONE);
        if view.list != list {
            view.take(self::view().rows, Instant::now());
        }
        let (width, height) = ((random >> 40) as u16 % 150 + 1, (random >> 50) as u16 % 50 + 1);
        let screen = drawn(&view, width, height);
        assert_eq!(screen.lines().count(), usize::from(height));
        assert!(screen.lines().all(|line| line.chars().count() <= usize::from(width)), "{width}\n{screen}");
        // A number is whole or not there.
        if view.list == List::Clients && view.detail.is_none() {
            let body = screen.lines().skip(3).flat_map(|line| line.split(|c: char| !c.is_ascii_digit() && c != ','));
            for word in body.filter(|word| word.contains(',')) {
                assert!(["100,000", "1,234,567", "86,400", "4,321"].contains(&word), "{word} at {width}\n{screen}");
            }
        }
    }
}
