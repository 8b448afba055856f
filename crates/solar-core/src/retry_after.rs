//! What the HTTP header `Retry-After` asks for (RFC 9110, 10.2.3).

use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// The three forms of a date that a recipient has to read (RFC 9110, 5.6.7); only the first is still written.
const DATES: [&str; 3] = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// How long the header's `value` asks to wait at `now`, be it seconds or a date. `None`: it says nothing, as a date does
/// that is over.
pub fn wait(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = DATES.iter().find_map(|form| DateTime::strptime(form, value).ok())?;
    let until = until.to_zoned(TimeZone::UTC).ok()?.timestamp();
    Duration::try_from(until.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}
