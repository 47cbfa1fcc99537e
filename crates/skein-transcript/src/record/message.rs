//! The stored form of a message.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use skein_domain::Timestamp;

use crate::id::RunNumber;
use crate::message::{
    Block, CoveredRange, Image, Message, MessageRole, Native, Part, ToolCall, ToolOutcome,
    ToolResult,
};
use crate::usage::TokenUsage;

#[derive(Serialize, Deserialize)]
pub(crate) struct MessageV1 {
    pub(super) id: String,
    pub(super) role: MessageRole,
    pub(super) blocks: Vec<BlockV1>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) native: Option<Native>,
    #[serde(default, skip_serializing_if = "TokenUsage::is_nothing")]
    pub(super) usage: TokenUsage,
    pub(super) at: i64,
    pub(super) run: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) covers: Option<(u64, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum BlockV1 {
    Text {
        text: String,
    },
    Thinking {
        text: String,
        signature: Option<String>,
    },
    ToolCall {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        call: String,
        content: Vec<PartV1>,
        failed: bool,
    },
    Image(Image),
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum PartV1 {
    Text { text: String },
    Image(Image),
}

impl From<&Message> for MessageV1 {
    fn from(m: &Message) -> Self {
        Self {
            id: m.id.to_string(),
            role: m.role,
            blocks: m.blocks.iter().map(BlockV1::from).collect(),
            native: m.native.clone(),
            usage: m.usage,
            at: m.at.as_micros(),
            run: m.run.0,
            covers: m.covers.map(|c| (c.from, c.end)),
        }
    }
}

impl TryFrom<MessageV1> for Message {
    type Error = String;
    fn try_from(m: MessageV1) -> Result<Self, String> {
        Ok(Self {
            id: m
                .id
                .parse()
                .map_err(|e: skein_domain::Invalid| e.to_string())?,
            role: m.role,
            blocks: m.blocks.into_iter().map(Block::from).collect(),
            native: m.native,
            usage: m.usage,
            at: Timestamp::from_micros(m.at),
            run: RunNumber(m.run),
            covers: m.covers.map(|(from, end)| CoveredRange { from, end }),
        })
    }
}

impl From<&Block> for BlockV1 {
    fn from(block: &Block) -> Self {
        match block.clone() {
            Block::Text(text) => Self::Text { text },
            Block::Thinking { text, signature } => Self::Thinking { text, signature },
            Block::ToolCall(ToolCall { id, name, input }) => Self::ToolCall { id, name, input },
            Block::ToolResult(ToolResult {
                call,
                content,
                outcome,
            }) => Self::ToolResult {
                call,
                content: content.into_iter().map(PartV1::from).collect(),
                failed: outcome == ToolOutcome::Failed,
            },
            Block::Image(image) => Self::Image(image),
        }
    }
}

impl From<BlockV1> for Block {
    fn from(block: BlockV1) -> Self {
        match block {
            BlockV1::Text { text } => Self::Text(text),
            BlockV1::Thinking { text, signature } => Self::Thinking { text, signature },
            BlockV1::ToolCall { id, name, input } => Self::ToolCall(ToolCall { id, name, input }),
            BlockV1::ToolResult {
                call,
                content,
                failed,
            } => result(call, content.into_iter().map(Part::from).collect(), failed),
            BlockV1::Image(image) => Self::Image(image),
        }
    }
}

pub(super) fn result(call: String, content: Vec<Part>, failed: bool) -> Block {
    Block::ToolResult(ToolResult {
        call,
        content,
        outcome: if failed {
            ToolOutcome::Failed
        } else {
            ToolOutcome::Done
        },
    })
}

impl From<Part> for PartV1 {
    fn from(part: Part) -> Self {
        match part {
            Part::Text(text) => Self::Text { text },
            Part::Image(image) => Self::Image(image),
        }
    }
}

impl From<PartV1> for Part {
    fn from(part: PartV1) -> Self {
        match part {
            PartV1::Text { text } => Self::Text(text),
            PartV1::Image(image) => Self::Image(image),
        }
    }
}
