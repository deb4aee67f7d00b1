//! Quiet hours: a part of the day, by the clock of this machine, in which a receiver is not told.

use std::time::Duration;

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use plexus_store::UnixMillis;
use plexus_wire::RiskLevel;

/// When a receiver is left alone, and what it is told all the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quiet {
    from: Time,
    until: Time,
    /// Requests of this risk and above are told at once.
    except: Option<RiskLevel>,
}

impl Quiet {
    /// Reads `22:00-07:00`.
    pub(crate) fn new(text: &str, except: Option<RiskLevel>) -> Result<Self, String> {
        let wrong = || format!("its quiet is {text:?}; write it like 22:00-07:00");
        let time = |text: &str| Time::strptime("%H:%M", text.trim()).map_err(|_| wrong());
        let (from, until) = text.split_once('-').ok_or_else(wrong)?;
        let (from, until) = (time(from)?, time(until)?);
        if from == until {
            return Err(format!(
                "its quiet is {text:?}, which begins when it ends; give two different times"
            ));
        }
        Ok(Self { from, until, except })
    }

    /// Returns when a message about something of this risk may go, if not now.
    pub(crate) fn until(&self, now: UnixMillis, level: Option<RiskLevel>) -> Option<UnixMillis> {
        self.until_in(now, level, &TimeZone::system())
    }

    fn until_in(
        &self,
        now: UnixMillis,
        level: Option<RiskLevel>,
        zone: &TimeZone,
    ) -> Option<UnixMillis> {
        if let (Some(level), Some(except)) = (level, self.except)
            && level >= except
        {
            return None;
        }
        let here = Timestamp::from_millisecond(now.0).ok()?.to_zoned(zone.clone());
        let time = here.time();
        let is_quiet = if self.from < self.until {
            self.from <= time && time < self.until
        } else {
            self.from <= time || time < self.until
        };
        if !is_quiet {
            return None;
        }
        let day = if time < self.until { here.date() } else { here.date() + 1.day() };
        let end = day.to_datetime(self.until).to_zoned(zone.clone()).ok()?;
        let end = UnixMillis(end.timestamp().as_millisecond());
        // A change of the clock may put the end into the past; then it is looked at again soon.
        Some(end.max(now.plus(Duration::from_secs(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> UnixMillis {
        UnixMillis(text.parse::<Timestamp>().unwrap().as_millisecond())
    }

    #[test]
    fn a_message_waits_until_the_quiet_hours_end() {
        let night = Quiet::new("22:00-07:00", Some(RiskLevel::Critical)).unwrap();
        let noon = Quiet::new("12:00 - 13:30", None).unwrap();
        for (quiet, now, level, expected) in [
            (&night, "2026-03-01T21:59:59Z", None, None),
            (&night, "2026-03-01T22:00:00Z", None, Some("2026-03-02T07:00:00Z")),
            (&night, "2026-03-02T03:00:00Z", None, Some("2026-03-02T07:00:00Z")),
            (&night, "2026-03-02T07:00:00Z", None, None),
            (&night, "2026-03-02T03:00:00Z", Some(RiskLevel::High), Some("2026-03-02T07:00:00Z")),
            (&night, "2026-03-02T03:00:00Z", Some(RiskLevel::Critical), None),
            (&noon, "2026-03-02T11:00:00Z", None, None),
            (
                &noon,
                "2026-03-02T12:30:00Z",
                Some(RiskLevel::Critical),
                Some("2026-03-02T13:30:00Z"),
            ),
            (&noon, "2026-03-02T13:30:00Z", None, None),
        ] {
            let until = quiet.until_in(at(now), level, &TimeZone::UTC);
            assert_eq!(until, expected.map(at), "{quiet:?} {now} {level:?}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused() {
        for text in ["", "22:00", "22-7", "25:00-07:00", "08:00-08:00", "a-b"] {
            let error = Quiet::new(text, None).unwrap_err();
            assert!(error.contains("quiet"), "{error}");
        }
    }
}
