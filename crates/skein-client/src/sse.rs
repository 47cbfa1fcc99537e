//! Server-Sent Events, read from chunks that may end anywhere.

/// Longest line kept; a longer one cannot be an event of ours.
const LINE_LIMIT: usize = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) id: Option<String>,
    pub(crate) event: Option<String>,
    pub(crate) data: String,
}

#[derive(Debug, Default)]
pub(crate) struct Parser {
    line: Vec<u8>,
    frame: Frame,
    has_data: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Parser {
    /// Takes the next chunk and gives the frames it completes.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<Vec<Frame>, TooLong> {
        let mut frames = Vec::new();
        for &byte in chunk {
            if byte != b'\n' {
                if self.line.len() >= LINE_LIMIT {
                    return Err(TooLong);
                }
                self.line.push(byte);
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let text = String::from_utf8_lossy(&line);
            frames.extend(self.line(text.strip_suffix('\r').unwrap_or(&text)));
        }
        Ok(frames)
    }

    fn line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => self.frame.event = Some(value.to_owned()),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            // Comments (an empty field) are heartbeats; other fields mean nothing to us.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_split() {
        let text = ": hello\n\nid: 7\nevent: session.made\ndata: {\"a\":\ndata: 1}\n\ndata:x\r\n\r\nid: 9\n\n";
        let expected = vec![
            Frame {
                id: Some("7".into()),
                event: Some("session.made".into()),
                data: "{\"a\":\n1}".into(),
            },
            Frame {
                id: None,
                event: None,
                data: "x".into(),
            },
        ];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let frames: Vec<_> = text
                .as_bytes()
                .chunks(size)
                .flat_map(|chunk| parser.push(chunk).unwrap())
                .collect();
            assert_eq!(frames, expected, "chunks of {size}");
        }
    }
}
