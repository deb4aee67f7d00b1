//! What a command writes to: how wide it is, whether it takes colours, whether a person sits there.

use std::io::{IsTerminal, Write};

/// The narrowest width that output is made for.
const NARROWEST: usize = 20;

/// The width of a terminal that does not say.
const USUAL_WIDTH: usize = 80;

/// The width of a pipe or a file: nothing is cut there.
const PIPED_WIDTH: usize = 1_000_000;

/// Says how to get the real agent, for a person who meets the simulator.
pub const INSTALL_HINT: &str = "install Claude Code (npm install -g @anthropic-ai/claude-code) \
    and sign in, then restart the server; or name it with --claude-bin";

/// Where a command writes.
#[derive(Clone, Copy, Debug)]
pub struct Screen {
    colours: bool,
    width: usize,
    moves: bool,
}

/// The style of a piece of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// As the terminal shows text.
    Plain,
    /// Bold.
    Strong,
    /// Dim.
    Faint,
    /// Green.
    Good,
    /// Red.
    Bad,
    /// Yellow.
    Warn,
    /// Cyan: the name of a tool.
    Tool,
}

impl Screen {
    /// The screen behind stdout.
    pub fn stdout() -> Self {
        let out = std::io::stdout();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colours = out.is_terminal() && !is_set("NO_COLOR") && !dumb;
        let columns = rustix::termios::tcgetwinsize(&out)
            .ok()
            .map(|size| usize::from(size.ws_col))
            .filter(|columns| *columns > 0);
        let named = || std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let width = match out.is_terminal() {
            true => columns.or_else(named).unwrap_or(USUAL_WIDTH).max(NARROWEST),
            false => PIPED_WIDTH,
        };
        let moves = out.is_terminal() && !dumb;
        Self { colours, width, moves }
    }

    /// Whether a line can be drawn again in its place.
    pub fn moves(self) -> bool {
        self.moves
    }

    /// Whether it is a pipe or a file, in which nothing is cut.
    pub fn is_endless(self) -> bool {
        self.width == PIPED_WIDTH
    }

    /// A screen without colours, such as that of a message.
    #[must_use]
    pub fn plain(width: usize) -> Self {
        Self { colours: false, width, moves: false }
    }

    /// How many columns there are.
    pub fn width(self) -> usize {
        self.width
    }

    /// Colours a text that is already safe to show.
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => "",
            Tone::Strong => "1",
            Tone::Faint => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Warn => "33",
            Tone::Tool => "36",
        };
        if !self.colours || code.is_empty() || text.is_empty() {
            text.to_owned()
        } else {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        }
    }
}

/// The margin of a log: the time of an event before its first line.
#[derive(Debug, Default)]
pub struct Margin {
    day: Option<jiff::civil::Date>,
    /// The time that the next line shows.
    time: Option<String>,
}

impl Margin {
    /// Moves to an event of this time, in Unix milliseconds; returns the day where that is another.
    pub fn moves_to(&mut self, ms: i64) -> Option<String> {
        let at = jiff::Timestamp::from_millisecond(ms).unwrap_or_default();
        let at = at.to_zoned(jiff::tz::TimeZone::system());
        self.time = Some(at.strftime("%H:%M:%S ").to_string());
        let is_new = self.day.replace(at.date()) != Some(at.date());
        is_new.then(|| at.strftime("%Y-%m-%d").to_string())
    }

    /// Returns what stands before the next line.
    pub fn prefix(&mut self) -> String {
        self.time.take().unwrap_or_else(|| " ".repeat("00:00:00 ".len()))
    }
}

/// Writes to stdout and flushes, so that half a line is seen too.
pub fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a line to stdout.
pub fn line(text: &str) -> std::io::Result<()> {
    print(&format!("{text}\n"))
}

/// Cuts a text to `width` columns, counting characters, with a sign that something is missing.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// Writes a span of time as a person says it.
pub fn duration(ms: i64) -> String {
    let secs = ms.max(0) / 1_000;
    match secs {
        0 => format!("{} ms", ms.max(0)),
        1..=59 => format!("{secs} s"),
        60..=3_599 => format!("{} min {} s", secs / 60, secs % 60),
        3_600..=86_399 => format!("{} h {} min", secs / 3_600, secs % 3_600 / 60),
        _ => format!("{} d {} h", secs / 86_400, secs % 86_400 / 3_600),
    }
}

/// Writes how many there are of something whose plural ends in s.
pub fn counted(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

/// Writes an amount of money.
pub fn dollars(amount: f64) -> String {
    if amount >= 0.1 || amount == 0.0 { format!("${amount:.2}") } else { format!("${amount:.4}") }
}

/// The message about a stopped server, which both the server and `plexus stop` print.
pub fn server_stopped(children: u64) -> String {
    match children {
        0 => "stopped; no child is running".to_owned(),
        1 => "stopped; 1 child keeps running; the next start takes it over".to_owned(),
        n => format!("stopped; {n} children keep running; the next start takes them over"),
    }
}

/// Returns the time, in Unix milliseconds.
pub fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_without_colours_has_no_escapes() {
        assert_eq!(Screen::plain(80).paint(Tone::Bad, "x"), "x");
        let coloured = Screen { colours: true, width: 80, moves: false };
        assert_eq!(coloured.paint(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
    }

    #[test]
    fn spans_and_amounts_read_well() {
        for (ms, text) in [
            (5, "5 ms"),
            (1_999, "1 s"),
            (61_000, "1 min 1 s"),
            (3_660_000, "1 h 1 min"),
            (90_000_000, "1 d 1 h"),
        ] {
            assert_eq!(duration(ms), text);
        }
        assert_eq!(
            (dollars(0.0016), dollars(1.5), dollars(0.0)),
            ("$0.0016".into(), "$1.50".into(), "$0.00".into())
        );
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
