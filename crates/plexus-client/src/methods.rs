//! Every method as one typed function, by namespace, made from the list of all methods in
//! `plexus-wire`. Streams are read with [`Client::follow`].

use plexus_wire::*;

use crate::client::Client;
use crate::error::ClientError;

/// The parameters of a call: those that were given, or none.
macro_rules! given {
    ($params:ident: $shape:ty) => {
        $params
    };
    ($params:ident:) => {
        &NoParams::default()
    };
}

/// Makes one function, unless the method is a stream.
macro_rules! function {
    ([stream] $($rest:tt)*) => {};
    ([] $(#[$doc:meta])* $function:ident($($params:ident)?) -> $result:ident = $marker:path) => {
        $(#[$doc])*
        ///
        /// # Errors
        /// As [`Client::call`].
        pub async fn $function(
            &self,
            $(params: &$params)?
        ) -> Result<$result, ClientError> {
            let params = given!(params: $($params)?);
            self.client.call::<$marker>(params).await
        }
    };
}

/// Makes the functions of a namespace.
macro_rules! functions {
    ($(#[$about:meta])* $namespace:ident: $type:ident {
        $($(#[$doc:meta])* $function:ident($($params:ident)?) -> $result:ident = $marker:ident
            $(, $shape:ident)?;)*
    }) => {
        impl Client {
            $(#[$about])*
            #[must_use]
            pub fn $namespace(&self) -> $type<'_> {
                $type { client: self }
            }
        }

        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub struct $type<'a> {
            client: &'a Client,
        }

        impl $type<'_> {
            $(function! {
                [$($shape)?]
                $(#[$doc])*
                $function($($params)?) -> $result = method::$namespace::$marker
            })*
        }
    };
}

plexus_wire::methods!(functions);
