//! Images that belong to a prompt.

use std::fmt;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// How many images one prompt may have.
pub const MAX_IMAGES: usize = 20;

/// How long one image may be, as base64: services of models refuse longer ones. All of a prompt
/// together, with its text, have [`MAX_PROMPT_BYTES`](crate::text::MAX_PROMPT_BYTES) at most.
pub const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;

/// The types that models take.
pub const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// An image of a prompt.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct PromptImage {
    /// Its type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    #[serde(deserialize_with = "crate::text::one::<ImageType, _>")]
    pub mime_type: String,
    /// Its bytes as base64.
    #[serde(deserialize_with = "crate::text::one::<ImageData, _>")]
    #[schemars(length(min = 4, max = 5_242_880))]
    pub data: String,
}

impl PromptImage {
    /// An image.
    pub fn new(mime_type: impl Into<String>, data: impl Into<String>) -> Self {
        Self { mime_type: mime_type.into(), data: data.into() }
    }

    /// Returns how many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let padding = self.data.bytes().rev().take_while(|byte| *byte == b'=').count();
        (self.data.len() / 4 * 3).saturating_sub(padding)
    }
}

/// It may be long: its bytes are not printed.
impl fmt::Debug for PromptImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PromptImage({}, {} bytes)", self.mime_type, self.bytes())
    }
}

/// Returns the text of a prompt as it is stored, shown and sent: a line for each of its images says
/// which it is.
#[must_use]
pub fn prompt_with_images(text: &str, images: &[PromptImage]) -> String {
    let mut shown = text.to_owned();
    for (at, image) in images.iter().enumerate() {
        let (number, kind, bytes) = (at + 1, &image.mime_type, image.bytes());
        shown.push_str(&format!("\n[image {number}: {kind}, {bytes} bytes]"));
    }
    shown
}

/// The type of an image.
struct ImageType;

impl crate::text::Check for ImageType {
    fn check(text: &str) -> Result<(), String> {
        if IMAGE_TYPES.contains(&text) {
            return Ok(());
        }
        Err(format!(
            "{text:?} is not a type that models take; use one of {}",
            IMAGE_TYPES.join(", ")
        ))
    }
}

/// The bytes of an image.
struct ImageData;

impl crate::text::Check for ImageData {
    fn check(text: &str) -> Result<(), String> {
        if text.len() > MAX_IMAGE_BYTES {
            let found = text.len();
            return Err(format!("{found} bytes of base64 are too many: at most {MAX_IMAGE_BYTES}"));
        }
        let digits = text.trim_end_matches('=');
        let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
        let is_whole = text.len().is_multiple_of(4) && text.len() - digits.len() <= 2;
        match !digits.is_empty() && is_whole && digits.bytes().all(is_digit) {
            true => Ok(()),
            false => Err("it is not base64 with its padding".to_owned()),
        }
    }
}

/// Reads the images of a prompt, which may be left out.
pub(crate) fn maybe_images<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<PromptImage>>, D::Error> {
    let images = Option::<Vec<PromptImage>>::deserialize(deserializer)?;
    match images.as_ref().map_or(0, Vec::len) {
        found if found > MAX_IMAGES => Err(D::Error::custom(format!(
            "{found} images are too many for one prompt: at most {MAX_IMAGES}"
        ))),
        _ => Ok(images),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_image_is_shown_by_its_type_and_size() {
        let images = [PromptImage::new("image/png", "AAAA"), PromptImage::new("image/gif", "AA==")];
        assert_eq!(
            prompt_with_images("see", &images),
            "see\n[image 1: image/png, 3 bytes]\n[image 2: image/gif, 1 bytes]"
        );
        assert_eq!(format!("{:?}", images[0]), "PromptImage(image/png, 3 bytes)");
        assert_eq!(prompt_with_images("see", &[]), "see");
    }

    #[test]
    fn images_that_no_model_takes_are_refused() {
        #[derive(Debug, Deserialize)]
        struct Params {
            #[serde(deserialize_with = "maybe_images")]
            images: Option<Vec<PromptImage>>,
        }
        let read = |images| serde_json::from_value::<Params>(json!({"images": images}));
        let good = json!({"mime_type": "image/png", "data": "AA=="});
        assert_eq!(read(json!([good])).unwrap().images.unwrap()[0].bytes(), 1);
        let long = "A".repeat(MAX_IMAGE_BYTES + 4);
        for (images, words) in [
            (json!([{"mime_type": "image/tiff", "data": "AA=="}]), "image/tiff"),
            (json!([{"mime_type": "image/png", "data": ""}]), "not base64"),
            (json!([{"mime_type": "image/png", "data": "A==="}]), "not base64"),
            (json!([{"mime_type": "image/png", "data": "AA="}]), "not base64"),
            (json!([{"mime_type": "image/png", "data": "A A="}]), "not base64"),
            (json!([{"mime_type": "image/png", "data": long}]), "too many"),
            (json!([{"mime_type": "image/png", "data": "AA==", "uri": "x"}]), "uri"),
            (json!(vec![good; MAX_IMAGES + 1]), "21 images"),
        ] {
            let error = read(images).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
