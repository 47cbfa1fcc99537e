//! What the permission setting allows without a question to the user.

use std::path::{Component, Path, PathBuf};

use crate::args::Permission;
use crate::protocol::{Kind, Question, QuestionForm};

/// The option that the setting chooses; none if the user decides.
pub(crate) fn decide(permission: Permission, cwd: &Path, question: &Question) -> Option<usize> {
    if question.form != QuestionForm::Permission {
        return None;
    }
    let allowed = match permission {
        Permission::Ask => false,
        Permission::Edits => {
            let mut edits = question.edits.iter().peekable();
            edits.peek().is_some() && edits.all(|path| is_inside(cwd, path))
        }
        Permission::Full => true,
    };
    // Only once, because the next run may have another setting.
    allowed
        .then(|| option_of(question, Kind::AllowOnce))
        .flatten()
}

/// The option that rejects, and goes no further than it must.
pub(crate) fn rejecting(question: &Question) -> Option<usize> {
    option_of(question, Kind::RejectOnce).or_else(|| option_of(question, Kind::RejectAlways))
}

fn option_of(question: &Question, kind: Kind) -> Option<usize> {
    question
        .options
        .iter()
        .position(|option| option.kind == kind)
}

/// Whether a file lies in the folder, links on the way followed as far as they exist.
fn is_inside(folder: &Path, path: &Path) -> bool {
    let path = folder.join(path);
    if path.components().any(|part| part == Component::ParentDir) {
        return false;
    }
    let Ok(folder) = folder.canonicalize() else {
        return false;
    };
    resolved(&path).is_some_and(|path| path.starts_with(folder))
}

/// The path with every link in it followed; what does not exist yet cannot be one.
fn resolved(path: &Path) -> Option<PathBuf> {
    for ancestor in path.ancestors() {
        match ancestor.canonicalize() {
            Ok(real) => {
                let rest = path.strip_prefix(ancestor).ok()?;
                return Some(real.join(rest));
            }
            // A link that leads nowhere yet would lead somewhere once it is written to.
            Err(_) if ancestor.is_symlink() => return None,
            Err(_) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Choice, QuestionId};

    fn question(edits: &[PathBuf], form: QuestionForm) -> Question {
        let option = |kind: Kind| Choice {
            name: kind.as_str().into(),
            kind,
        };
        Question {
            local_id: QuestionId(1),
            request: "r1".into(),
            text: "may I?".into(),
            options: vec![
                option(Kind::AllowAlways),
                option(Kind::AllowOnce),
                option(Kind::RejectOnce),
            ],
            form,
            edits: edits.to_vec(),
        }
    }

    #[test]
    fn edits_are_allowed_below_the_working_folder_only() {
        let folder = tempfile::tempdir().unwrap();
        let cwd = folder.path().join("work");
        std::fs::create_dir(&cwd).unwrap();
        std::os::unix::fs::symlink(folder.path(), cwd.join("out")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("later"), cwd.join("dangling")).unwrap();
        let ask = |paths: &[PathBuf]| {
            let question = question(paths, QuestionForm::Permission);
            decide(Permission::Edits, &cwd, &question).is_some()
        };
        assert!(ask(&[cwd.join("a/new/file")]));
        assert!(ask(&["relative".into()]));
        assert!(!ask(&[]));
        assert!(!ask(&[cwd.join("a"), folder.path().join("b")]));
        assert!(!ask(&[cwd.join("../b")]));
        assert!(!ask(&[cwd.join("out/b")]));
        assert!(!ask(&[cwd.join("dangling")]));
    }

    #[test]
    fn full_allows_once_and_chooses_nothing_else() {
        let cwd = Path::new("/");
        let full = |form| decide(Permission::Full, cwd, &question(&[], form));
        assert_eq!(full(QuestionForm::Permission), Some(1));
        assert_eq!(full(QuestionForm::Choice { free: true }), None);
        let ask = question(&["a".into()], QuestionForm::Permission);
        assert_eq!(decide(Permission::Ask, cwd, &ask), None);
        assert_eq!(rejecting(&ask), Some(2));
    }
}
