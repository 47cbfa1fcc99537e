//! The cold tier in a folder of this machine, and in a bucket of a real S3 server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod folder;
mod heavy_s3;
mod race;
mod talk;
