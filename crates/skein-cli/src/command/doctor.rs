//! `skein doctor`

use clap::Args;

use crate::context::Context;
use crate::error::UserError;

/// Look for what may be wrong, and say how to mend it
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

pub(crate) async fn run(context: &Context, args: DoctorArgs) -> Result<(), UserError> {
    let _ = (context, args);
    Ok(())
}
