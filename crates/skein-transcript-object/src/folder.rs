//! Objects as files in a folder of this machine.
//!
//! Why not `object_store`'s own local store: it has no conditional replace, makes files readable for the group, and
//! does not distinguish a missing folder from a missing object. A name is a path below the root, like a key in a
//! bucket, so a folder can be copied into a bucket unchanged.
//!
//! How it keeps the contract:
//! - **Whole objects**: a file is written under a temporary name, synced, and then renamed.
//! - **Conditions**: the process that checks and renames holds the lock of the name meanwhile.
//! - **Durable**: all folders up to the root are synced before the answer, also before an answer that only saw an
//!   object whose writer may have been killed right after the rename.

mod disk;
mod list;
mod lock;
mod temp;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use skein_transcript::cold::{Cold, Name, Object, PutCondition, PutResult};
use skein_transcript::{Error, Result, async_trait};

use crate::name;
use disk::Disk;

/// Owner only: folders are 0700 and files 0600. Cheap to clone.
#[derive(Clone)]
pub struct Folder {
    disk: Arc<Disk>,
}

impl Folder {
    /// Makes the folder if needed, and removes temporary files of killed processes. Blocks.
    pub fn open(root: &Path) -> Result<Self> {
        let disk = Arc::new(Disk::open(root)?);
        Ok(Self { disk })
    }

    /// Runs to its end even if the caller drops the future, so that nothing is left half done.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Disk) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let disk = self.disk.clone();
        let ended = tokio::task::spawn_blocking(move || work(&disk)).await;
        ended.map_err(|_| Error::cold("the work was interrupted"))?
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Folder({})", self.disk.root().display())
    }
}

#[async_trait]
impl Cold for Folder {
    async fn get(&self, name: &Name) -> Result<Option<Object>> {
        let name = name::object(name)?.to_owned();
        self.blocking(move |disk| disk.get(&name)).await
    }

    async fn put(&self, name: &Name, body: Vec<u8>, when: PutCondition) -> Result<PutResult> {
        let name = name::object(name)?.to_owned();
        self.blocking(move |disk| disk.put(&name, &body, &when))
            .await
    }

    async fn delete(&self, name: &Name) -> Result<()> {
        let name = name::object(name)?.to_owned();
        self.blocking(move |disk| disk.delete(&name)).await
    }

    async fn list(&self, prefix: &Name, after: Option<&Name>, limit: usize) -> Result<Vec<Name>> {
        let prefix = name::prefix(prefix)?.to_owned();
        let after = after.map(|after| after.as_str().to_owned());
        self.blocking(move |disk| {
            disk.check()?;
            list::list(disk.root(), &prefix, after.as_deref(), limit)
        })
        .await
    }
}
