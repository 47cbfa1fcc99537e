//! Compression of payloads, where it saves space.
//!
//! Most messages are short, and half of a short one is JSON syntax and field names. With a dictionary of these,
//! compression is worthwhile from a hundred bytes on.

use std::cell::RefCell;
use std::io;

use zstd::bulk::{Compressor, Decompressor};

/// What entries have in common, the most frequent last. Part of the file format: never edit it.
const DICTIONARY: &[u8] = br#"{"v":1,"n":1,"s":0,"state":{"version":1,"state":{"tasks":[],"custom":{"covers":[0,"kind":"image","media_type":"image/png","source":"{"kind":"thinking","text":"","signature":"null"native":{"provider":"anthropic","payload":"{\"type\":\"assistant\",\"message\":{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"\"}]}}"},"role":"system","role":"tool","blocks":[{"kind":"tool_result","call":"toolu_01","content":[{"kind":"text","text":"error: "}],"failed":true}],"content":[{"kind":"text","text":""}],"failed":false}],"role":"assistant","blocks":[{"kind":"text","text":"I'll "},{"kind":"tool_call","id":"toolu_01","name":"Bash","input":{"command":"","description":"","file_path":"/home/","pattern":"","old_string":"","new_string":""}}],"usage":{"input":0,"output":0,"cache_read":0,"cache_write":0,"reasoning":0,"cost_micros":0},"at":1790000000000000,"run":1}}{"v":1,"n":1,"message":{"id":"msg_01","role":"user","blocks":[{"kind":"text","text":"The the and that is of to in this "}],"at":1790000000000000,"run":1}}"#;

/// The fastest: higher levels save little, and writers wait for the compression.
const LEVEL: i32 = 1;
/// Shorter payloads do not get smaller.
const WORTH: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackedPayload {
    /// The size before compression; 0 if `bytes` is the payload itself.
    pub(super) size: usize,
    pub(super) bytes: Vec<u8>,
}

thread_local! {
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

pub(super) fn pack(payload: Vec<u8>) -> PackedPayload {
    let packed = if payload.len() < WORTH {
        None
    } else {
        with_packer(&payload).filter(|packed| packed.len() + payload.len() / 16 < payload.len())
    };
    match packed {
        Some(bytes) => PackedPayload {
            size: payload.len(),
            bytes,
        },
        None => PackedPayload {
            size: 0,
            bytes: payload,
        },
    }
}

/// `None` if compression fails; the payload is then stored as it is.
fn with_packer(payload: &[u8]) -> Option<Vec<u8>> {
    PACKER.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Compressor::with_dictionary(LEVEL, DICTIONARY).ok();
        }
        slot.as_mut()?.compress(payload).ok()
    })
}

/// `None` if the bytes are the payload itself.
pub(super) fn unpack(size: usize, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    if size == 0 {
        return Ok(None);
    }
    let payload = UNPACKER.with_borrow_mut(|slot| {
        let unpacker = match slot {
            Some(unpacker) => unpacker,
            None => slot.insert(Decompressor::with_dictionary(DICTIONARY)?),
        };
        unpacker.decompress(bytes, size)
    })?;
    if payload.len() == size {
        return Ok(Some(payload));
    }
    Err(io::Error::other(
        "an entry does not have the length it was written with",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: &[u8] = br#"{"v":1,"n":7,"message":{"id":"msg_01Xy","role":"user","blocks":[{"kind":"text","text":"Please look at the login form"}],"at":1790000000123456,"run":3}}"#;

    fn round_trips(payload: &[u8]) -> PackedPayload {
        let packed = pack(payload.to_vec());
        let unpacked = unpack(packed.size, &packed.bytes).unwrap();
        assert_eq!(unpacked.as_ref().unwrap_or(&packed.bytes), payload);
        packed
    }

    #[test]
    fn payloads_come_back_and_are_packed_only_when_that_helps() {
        for plain in [&b""[..], b"x", b"short"] {
            assert_eq!(round_trips(plain).size, 0);
        }
        let noise: Vec<u8> = blake3::Hasher::new().finalize_xof().take_noise(5_000);
        assert_eq!(round_trips(&noise).size, 0);
        let short = round_trips(SHORT);
        assert!(
            short.bytes.len() * 3 < SHORT.len() * 2,
            "{} of {}",
            short.bytes.len(),
            SHORT.len()
        );
        let long = round_trips(&SHORT.repeat(10_000));
        assert!(long.bytes.len() < 10_000);
    }

    trait Noise {
        fn take_noise(self, count: usize) -> Vec<u8>;
    }
    impl Noise for blake3::OutputReader {
        fn take_noise(mut self, count: usize) -> Vec<u8> {
            let mut bytes = vec![0; count];
            self.fill(&mut bytes);
            bytes
        }
    }

    #[test]
    fn what_was_cut_or_padded_is_noticed() {
        let packed = pack(SHORT.to_vec());
        assert!(unpack(packed.size + 1, &packed.bytes).is_err());
        assert!(unpack(packed.size - 1, &packed.bytes).is_err());
        assert!(unpack(packed.size, &packed.bytes[1..]).is_err());
    }

    /// Files that were written with it must stay readable.
    #[test]
    fn the_dictionary_is_never_edited() {
        let hash = blake3::hash(DICTIONARY).to_hex();
        assert_eq!(&hash[..16], "90a3b5b465c0835e");
    }
}
