//! Pages of records: a bounded number at a time, in a stable order, with an opaque position after
//! the last one.

use std::fmt;
use std::str::FromStr;

use super::error::StoreError;
use super::limits::MAX_PAGE_ITEMS;

/// How many records a page holds by default.
const DEFAULT_PAGE: usize = 100;

/// Which page is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageRequest {
    /// The position that the previous page returned; `None` for the first page.
    pub after: Option<PageToken>,
    /// How many records at most; capped at [`MAX_PAGE_ITEMS`].
    pub limit: usize,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { after: None, limit: DEFAULT_PAGE }
    }
}

impl PageRequest {
    /// Asks for the first page of at most `limit` records.
    #[must_use]
    pub fn first(limit: usize) -> Self {
        Self { after: None, limit }
    }

    /// Asks for the record with this number, in a list from newest to oldest. If it is gone, an
    /// older one is returned.
    #[must_use]
    pub fn newest_from(number: u64) -> Self {
        Self { after: Some(PageToken(number.saturating_add(1))), limit: 1 }
    }

    /// Returns the request for the page after this one, given where this one ended; `None` when it
    /// was the last.
    #[must_use]
    pub fn then(self, next: Option<PageToken>) -> Option<Self> {
        next.map(|after| Self { after: Some(after), ..self })
    }

    /// Returns the number of records to read: at least one, at most [`MAX_PAGE_ITEMS`].
    pub(crate) fn bounded(&self) -> usize {
        self.limit.clamp(1, MAX_PAGE_ITEMS)
    }
}

/// One page.
#[derive(Clone, PartialEq, Debug)]
pub struct Page<T> {
    /// The records.
    pub items: Vec<T>,
    /// Where the next page starts; `None` when this is the last.
    pub next: Option<PageToken>,
}

impl<T> Page<T> {
    /// Makes a page of `limit` records out of up to one more, which only shows that there is a next
    /// page.
    pub(crate) fn of(mut rows: Vec<(u64, T)>, limit: usize) -> Self {
        let next = if rows.len() > limit {
            rows.truncate(limit);
            rows.last().map(|(key, _)| PageToken(*key))
        } else {
            None
        };
        Self { items: rows.into_iter().map(|(_, item)| item).collect(), next }
    }
}

/// A position between two records of a list. Opaque to callers; it survives restarts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageToken(pub(crate) u64);

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{:x}", self.0)
    }
}

impl FromStr for PageToken {
    type Err = StoreError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_prefix('p')
            .filter(|hex| {
                hex.len() <= 16
                    && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
            })
            .and_then(|hex| u64::from_str_radix(hex, 16).ok())
            .map(Self)
            .ok_or_else(|| {
                StoreError::invalid(
                    "read the page's cursor: hand back exactly the one you were given",
                )
            })
    }
}
