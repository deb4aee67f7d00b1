//! Declares the requests of a protocol and their parameters.

/// Declares structs of parameters that are written in camel case. Required fields come first, in
/// brackets; then optional fields, which are left out when they are not set; last, with their
/// documentation, the fields of another struct that is flattened into this one. Fields that a
/// struct does not name are kept in `extra` and written back. The crate that uses this needs
/// `serde` and `serde_json`.
///
/// ```
/// agent_lines::rpc_params! {
///     /// A greeting.
///     pub struct Greeting {
///         [
///             /// Who is greeted.
///             user_name: String,
///         ]
///         /// How often.
///         times: u32,
///     }
/// }
///
/// let text = r#"{"new":1,"userName":"Ada"}"#;
/// let greeting: Greeting = serde_json::from_str(text).expect("a greeting");
/// assert_eq!((greeting.user_name.as_str(), greeting.times), ("Ada", None));
/// assert_eq!(serde_json::to_string(&greeting).expect("JSON"), r#"{"userName":"Ada","new":1}"#);
/// ```
#[macro_export]
macro_rules! rpc_params {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $([ $( $(#[$required_meta:meta])* $required:ident: $required_type:ty, )* ])?
            $( $(#[$optional_meta:meta])* $optional:ident: $optional_type:ty, )*
            $( ..$flat:ident: $flat_type:ty = $flat_doc:literal )?
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($( $(#[$required_meta])* pub $required: $required_type, )*)?
            $(
                $(#[$optional_meta])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$optional_type>,
            )*
            $(
                #[doc = $flat_doc]
                #[serde(flatten)]
                pub $flat: $flat_type,
            )?
            /// Fields that this crate does not name.
            #[serde(flatten)]
            pub extra: serde_json::Map<String, serde_json::Value>,
        }
    )*};
}

/// Declares the requests of one side, their methods and their parameters in one table. A method
/// that is not in the table is kept as `Other`. The crate that uses this needs `serde_json`.
#[macro_export]
macro_rules! rpc_requests {
    (
        $(#[$enum_meta:meta])*
        pub enum $enum:ident {
            $( $(#[$meta:meta])* $name:ident($params:ty) = $method:literal, )*
        }
    ) => {
        $(#[$enum_meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $enum {
            $( $(#[$meta])* $name($params), )*
            /// Any other method.
            Other {
                /// The method.
                method: String,
                /// Its parameters.
                params: Option<serde_json::Value>,
            },
        }

        impl $enum {
            /// Returns the method.
            pub fn method(&self) -> &str {
                match self {
                    $( Self::$name(_) => $method, )*
                    Self::Other { method, .. } => method,
                }
            }

            /// Returns the parameters as JSON.
            pub(super) fn params(&self) -> Option<serde_json::Value> {
                match self {
                    // Writing cannot fail, because the parameters are plain data with string keys.
                    $( Self::$name(params) => serde_json::to_value(params).ok(), )*
                    Self::Other { params, .. } => params.clone(),
                }
            }

            /// Reads a request; `None` when the parameters of a known method have another form.
            pub(super) fn read(
                method: String,
                params: Option<serde_json::Value>,
            ) -> Option<Self> {
                match method.as_str() {
                    $( $method => serde_json::from_value(params?).ok().map(Self::$name), )*
                    _ => Some(Self::Other { method, params }),
                }
            }
        }
    };
}
