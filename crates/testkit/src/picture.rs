//! A picture that every agent can read.

/// A PNG of one pixel, as base64.
pub const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Its type.
pub const TYPE: &str = "image/png";
