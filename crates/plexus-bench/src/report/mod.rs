//! How the figures are shown: a table for people, an object for programs, and the machine they were
//! taken on.

pub mod json;
mod machine;
pub mod table;
