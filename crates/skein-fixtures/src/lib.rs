//! Programs that follow a script, to try, show and test Skein without a model.
//!
//! - [`scripted`]: an agent program in a terminal. Users start it with `--agent scripted`.
//! - [`model_server`]: a model server for real agent programs. Users start it with `skein model-server`.
//!
//! Only the command line depends on this crate. Not here: how Skein launches and reads the scripted agent; the
//! adapter in `skein-agent` does that, and neither crate uses the other. Start with [`scripted`].

pub mod model_server;
pub mod scripted;
