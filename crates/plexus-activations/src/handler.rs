//! One way to turn a method of an activation into a handler of its method table.

/// Makes a handler that calls `$method` of the shared activation `$this`.
macro_rules! handler {
    ($this:expr, $method:ident) => {{
        let this = std::sync::Arc::clone(&$this);
        move |call: plexus_core::Call, params| {
            let this = std::sync::Arc::clone(&this);
            async move { this.$method(call, params).await }
        }
    }};
}

pub(crate) use handler;
