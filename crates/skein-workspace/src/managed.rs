//! Lists the workspace folders below the managed root, to compare records with folders. Removes nothing.

use std::fs;
use std::io;
use std::path::Path;

use skein_domain::{AbsPath, SessionId, TenantId};

use crate::error::Error;
use crate::provider::Result;
use crate::root::abs;

/// Every workspace folder below the root: tenant, session, path.
pub fn managed(root: &Path) -> Result<Vec<(String, SessionId, AbsPath)>> {
    let mut found = Vec::new();
    for tenant in names(root)? {
        if tenant.parse::<TenantId>().is_err() {
            continue;
        }
        let folder = root.join(&tenant);
        for session in names(&folder)? {
            let path = folder.join(&session);
            if let Ok(session) = session.parse::<SessionId>() {
                found.push((tenant.clone(), session, abs(&path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The folders in a folder, without links.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read", folder)(e)),
    };
    let folders = entries
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    Ok(folders
        .filter_map(|e| e.file_name().into_string().ok())
        .collect())
}
