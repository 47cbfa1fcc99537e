//! The folders in which the daemon makes and removes workspaces.

use std::path::{Path, PathBuf};

use skein_domain::TenantId;

#[derive(Clone, Debug, Default)]
pub struct ManagedRoots(Vec<PathBuf>);

impl ManagedRoots {
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self(roots)
    }

    pub(crate) fn roots(&self) -> &[PathBuf] {
        &self.0
    }

    /// Whether the daemon may make or remove this folder; users cannot rely on such a folder.
    pub fn is_managed(&self, path: &str) -> bool {
        self.0.iter().any(|root| Path::new(path).starts_with(root))
    }

    /// The session of this tenant whose workspace encloses `path`.
    pub fn session_around(&self, tenant: &TenantId, path: &str) -> Option<String> {
        self.0.iter().find_map(|root| {
            let below = Path::new(path)
                .strip_prefix(root.join(tenant.as_str()))
                .ok()?;
            let session = below.components().next()?.as_os_str();
            session.to_str().map(str::to_owned)
        })
    }
}
