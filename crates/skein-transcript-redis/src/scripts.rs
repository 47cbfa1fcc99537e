//! The Lua scripts with their hashes.

use redis::Script;

#[derive(Debug)]
pub(crate) struct Scripts {
    pub(crate) commit: Text,
    pub(crate) stage: Text,
    pub(crate) evict: Text,
    pub(crate) read: Text,
    pub(crate) strands: Text,
}

#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) source: &'static str,
    pub(crate) hash: String,
    /// The operation, for errors.
    pub(crate) what: &'static str,
}

impl Text {
    fn new(what: &'static str, source: &'static str) -> Self {
        let hash = Script::new(source).get_hash().to_owned();
        Self { source, hash, what }
    }
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            commit: Text::new("commit", include_str!("lua/commit.lua")),
            stage: Text::new("stage", include_str!("lua/stage.lua")),
            evict: Text::new("evict", include_str!("lua/evict.lua")),
            read: Text::new("read", include_str!("lua/read.lua")),
            strands: Text::new("read strands", include_str!("lua/strands.lua")),
        }
    }
}
