//! Files that an untrusted program may write, even while it still changes them: which of them other
//! programs obey ([`is_obeyed`]), reading them without following links ([`HeldDir`]), and removing
//! a directory with all of them ([`remove_all`]). Also files that only their owner can read
//! ([`write_private`]).

mod held;
mod obeyed;
mod private;
mod removal;

pub use held::HeldDir;
pub use obeyed::{is_obeyed, obeyed_names, protected};
pub use private::write_private;
pub use removal::remove_all;
