//! How long a registry asks to be left alone.

use std::time::Duration;

use solar_core::retry_after;

#[test]
fn seconds_and_dates_of_all_forms_are_read() {
    let now = "1994-11-06T08:49:30Z".parse().unwrap();
    for (value, wait) in [
        ("0", Some(0)),
        ("120", Some(120)),
        (" 120 ", Some(120)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(7)),
        ("Sun Nov  6 08:49:37 1994", Some(7)),
        ("Mon, 07 Nov 1994 08:49:30 GMT", Some(86_400)),
        // Over, or just now.
        ("Sun, 06 Nov 1994 08:49:30 GMT", None),
        ("Sun, 06 Nov 1994 08:49:29 GMT", None),
        // No date, or no HTTP date.
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("Mon, 06 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 CET", None),
        ("Sun, 31 Feb 1995 08:49:37 GMT", None),
        ("1994-11-06T08:49:37Z", None),
    ] {
        assert_eq!(retry_after::wait(value, now), wait.map(Duration::from_secs), "{value:?}");
    }
}
