//! The output of the figures: a table for people, an object for programs, and a description of the
//! machine.

pub mod json;
mod machine;
pub mod table;
