//! Paths and query strings. Every value is percent-encoded here and nowhere else.

use std::fmt::Write as _;

/// Which part of a list to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub limit: Option<u32>,
    pub cursor: Option<String>,
}

/// A request target under `/api/v1`, built segment by segment.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    text: String,
    separator: char,
}

impl Target {
    pub(crate) fn new<'a>(segments: impl IntoIterator<Item = &'a str>) -> Self {
        let mut text = format!("/api/{}", skein_wire::API);
        for segment in segments {
            text.push('/');
            encode(segment, &mut text);
        }
        Self {
            text,
            separator: '?',
        }
    }

    /// A target outside of the API.
    pub(crate) fn root(path: &'static str) -> Self {
        Self {
            text: path.to_owned(),
            separator: '?',
        }
    }

    pub(crate) fn with(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.text.push(self.separator);
            self.text.push_str(name);
            self.text.push('=');
            encode(&value.to_string(), &mut self.text);
            self.separator = '&';
        }
        self
    }

    pub(crate) fn page(self, page: &Page) -> Self {
        self.with("limit", page.limit)
            .with("cursor", page.cursor.as_deref())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Leaves RFC 3986's unreserved characters alone. A server that normalises paths would remove a segment of dots, so those
/// dots are encoded too.
fn encode(value: &str, out: &mut String) {
    let dots_only = value.bytes().all(|byte| byte == b'.');
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => out.push(byte.into()),
            b'.' if !dots_only => out.push('.'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_its_segment_or_parameter() {
        let check = |given: &str, expected: &str| {
            assert_eq!(
                Target::new(["sessions", given]).as_str(),
                format!("/api/v1/sessions/{expected}")
            );
        };
        check("api-1", "api-1");
        check("a/b?c#d", "a%2Fb%3Fc%23d");
        check("..", "%2E%2E");
        check("ü\n", "%C3%BC%0A");
        let target = Target::new(["sessions"])
            .with("status", Some("a,b&x=1"))
            .with("none", None::<&str>)
            .page(&Page {
                limit: Some(3),
                cursor: Some("c".into()),
            });
        assert_eq!(
            target.as_str(),
            "/api/v1/sessions?status=a%2Cb%26x%3D1&limit=3&cursor=c"
        );
    }
}
