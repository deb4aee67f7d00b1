//! `plexus search`: finds what was asked, said and done.

use anyhow::{Context as _, Result, bail};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};
use plexus_client::Client;
use plexus_client::wire::{
    Millis, SearchFound, SearchHit, SearchKind, SearchLimit, SearchParams, SearchPiece,
};

use super::args::Global;
use super::complete::sessions;
use super::exit;
use super::find::session as find_session;
use super::server::{self, failed};
use plexus_render::sanitize;
use plexus_render::screen::{self, Screen, Tone, cut};

/// `plexus search`.
#[derive(clap::Args, Debug)]
pub struct Search {
    /// The words.
    #[arg(value_name = "WORD")]
    pub words: Vec<String>,
    /// Only in this session.
    #[arg(long, short, value_name = "NAME|ID", add = sessions())]
    pub session: Option<String>,
    /// Only calls and results of this tool, such as Bash.
    #[arg(long)]
    pub tool: Option<String>,
    /// Only this kind.
    #[arg(long, value_parser = KINDS)]
    pub kind: Option<String>,
    /// Nothing before: 90m, 2h, 3d, 1w, a day (2026-11-17) or a day with a time.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Nothing at or after.
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// How many hits at most.
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N")]
    pub limit: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The kinds by the names they have on the wire.
const KINDS: [&str; 8] =
    ["prompt", "said", "thought", "call", "result", "decision", "notice", "steered"];

/// How many pages are read at most to fill one answer: a page may be empty although there is more.
const MAX_PAGES: usize = 50;

/// `plexus search`.
pub(super) async fn search(global: &Global, search: &Search) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let params = params(&client, search).await?;
    let found = all(&client, params, search.limit).await?;
    if search.json {
        screen::line(&serde_json::to_string_pretty(&found)?)?;
        return Ok(exit::OK);
    }
    let screen = Screen::stdout();
    for note in &found.notes {
        screen::line(&screen.paint(Tone::Faint, &sanitize::one_line(note)))?;
    }
    for hit in &found.hits {
        for line in shown(hit, screen, &TimeZone::system()) {
            screen::line(&line)?;
        }
    }
    if found.hits.is_empty() {
        screen::line("nothing was found")?;
    }
    if found.cursor.is_some() {
        screen::line(&screen.paint(Tone::Faint, "there is more: raise --limit or add words"))?;
    }
    if found.behind > 0 {
        let text = format!("{} newer commits are not indexed yet", found.behind);
        screen::line(&screen.paint(Tone::Faint, &text))?;
    }
    Ok(exit::OK)
}

async fn params(client: &Client, search: &Search) -> Result<SearchParams> {
    let now = Zoned::now();
    let moment = |text: &Option<String>| text.as_deref().map(|it| moment(it, &now)).transpose();
    let mut params = SearchParams::new(search.words.join(" "));
    params.session_id = match &search.session {
        Some(which) => Some(find_session(client, which).await.map_err(failed)?.id),
        None => None,
    };
    params.tool = search.tool.clone();
    params.kind = search.kind.as_deref().map(kind).transpose()?;
    params.since = moment(&search.since)?;
    params.until = moment(&search.until)?;
    Ok(params)
}

/// Reads pages until there are `limit` hits or nothing is left.
async fn all(client: &Client, mut params: SearchParams, limit: u32) -> Result<SearchFound> {
    let mut found: Option<SearchFound> = None;
    for _ in 0..MAX_PAGES {
        let have = found.as_ref().map_or(0, |found| found.hits.len());
        let left = u64::from(limit).saturating_sub(have as u64);
        params.limit = Some(SearchLimit::try_from(left.clamp(1, SearchLimit::MAX.into()))?);
        let page = client.agents().search(&params).await.map_err(failed)?;
        params.cursor = page.cursor.clone();
        let so_far = match found.take() {
            None => page,
            Some(mut before) => {
                before.hits.extend(page.hits);
                before.cursor = page.cursor;
                before.behind = page.behind;
                before
            }
        };
        let done = so_far.cursor.is_none() || so_far.hits.len() >= limit as usize;
        found = Some(so_far);
        if done {
            break;
        }
    }
    found.context("could not search")
}

fn kind(text: &str) -> Result<SearchKind> {
    serde_json::from_value(text.into()).with_context(|| format!("could not search for {text:?}"))
}

/// Reads a moment: a span before now (`90m`, `2h`, `3d`, `1w`), a day, or a day with a time.
fn moment(text: &str, now: &Zoned) -> Result<Millis> {
    let at = |moment: Timestamp| Ok(Millis(moment.as_millisecond()));
    let wrong = || {
        format!(
            "could not read the moment {text:?}: say a span before now (90m, 2h, 3d, 1w), a day \
             (2026-11-17) or a day with a time (2026-11-17T08:30)"
        )
    };
    if let Some((count, unit)) = text
        .char_indices()
        .next_back()
        .and_then(|(last, unit)| Some((text[..last].parse::<u32>().ok()?, unit)))
    {
        let count = i64::from(count);
        let span = match unit {
            'm' => count.minutes(),
            'h' => count.hours(),
            'd' => count.days(),
            'w' => count.weeks(),
            _ => bail!(wrong()),
        };
        return at(now.checked_sub(span).with_context(wrong)?.timestamp());
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return at(moment);
    }
    let local: DateTime = text.parse().ok().with_context(wrong)?;
    at(local.to_zoned(now.time_zone().clone()).with_context(wrong)?.timestamp())
}

/// Two lines for a hit: where it is, and what it says.
fn shown(hit: &SearchHit, screen: Screen, zone: &TimeZone) -> [String; 2] {
    let at = Timestamp::from_millisecond(hit.at.0)
        .map(|at| at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string())
        .unwrap_or_default();
    let tool = hit.tool.as_deref().map(|tool| format!(" {}", sanitize::one_line(tool)));
    let head = format!(
        "{at}  {}  chat {} #{}  {}{}",
        sanitize::one_line(&hit.session_name),
        hit.chat,
        hit.seq,
        sanitize::one_line(&hit.kind.to_string()),
        tool.unwrap_or_default(),
    );
    [screen.paint(Tone::Faint, &cut(&head, screen.width())), excerpt(&hit.excerpt, screen)]
}

fn excerpt(pieces: &[SearchPiece], screen: Screen) -> String {
    let mut room = screen.width().saturating_sub(4);
    let mut line = "    ".to_owned();
    for piece in pieces {
        // Runs of spaces and line ends are one space here: the place of the words is what matters.
        let flat = flat(&piece.text);
        let text = cut(&sanitize::one_line(&flat), room);
        room = room.saturating_sub(text.chars().count());
        line += &screen.paint(if piece.hit { Tone::Strong } else { Tone::Plain }, &text);
        if room == 0 {
            break;
        }
    }
    line
}

fn flat(text: &str) -> String {
    let mut flat = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_whitespace() {
            true if flat.ends_with(' ') => {}
            true => flat.push(' '),
            false => flat.push(c),
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_a_person_says_them() {
        let now: Zoned = "2026-11-17T12:00[UTC]".parse().unwrap();
        let read = |text: &str| {
            moment(text, &now).ok().map(|at| (now.timestamp().as_millisecond() - at.0) / 60_000)
        };
        for (text, minutes) in [
            ("90m", Some(90)),
            ("2h", Some(120)),
            ("1d", Some(24 * 60)),
            ("1w", Some(7 * 24 * 60)),
            ("2026-11-17", Some(12 * 60)),
            ("2026-11-17T11:30", Some(30)),
            ("2026-11-17T11:30:00+01:00", Some(90)),
            ("", None),
            ("yesterday", None),
            ("3y", None),
            ("d", None),
        ] {
            assert_eq!(read(text), minutes, "{text}");
        }
    }

    #[test]
    fn an_excerpt_is_one_safe_line() {
        let piece = |text: &str, hit| -> SearchPiece {
            serde_json::from_value(serde_json::json!({"text": text, "hit": hit})).unwrap()
        };
        let pieces = [piece("a\n\n  b \u{1b}[31m", false), piece("needle", true)];
        assert_eq!(excerpt(&pieces, Screen::plain(80)), "    a b ␛[31mneedle");
        assert_eq!(excerpt(&pieces, Screen::plain(12)).chars().count(), 12);
    }
}
