//! Texts that become arguments or variables of a process, or columns of a database: none of them
//! can hold a NUL.

use plexus_core::CallError;

/// Refuses a text with a NUL, naming the parameter by its path (`env.HOME`, `allowed_tools.0`).
///
/// # Errors
/// `invalid` when it holds one.
pub fn without_nul(field: impl std::fmt::Display, text: &str) -> Result<(), CallError> {
    if !text.contains('\0') {
        return Ok(());
    }
    Err(CallError::invalid(format_args!("take {field}: it holds a NUL character (U+0000)"))
        .with_hint("leave it out: no argument, variable or stored text can hold one"))
}
