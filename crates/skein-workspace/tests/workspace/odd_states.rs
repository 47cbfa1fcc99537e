//! L5 for odd states of git: each is made in a workspace, which is backed up, removed and made again.
//!
//! Afterwards every file has the same bytes and mode, the `inspect` script prints the same, and the `after` script
//! succeeds: it goes on with the work, as `git rebase --continue` does. Nothing outside the managed root changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use skein_workspace::provider::{Removal, WorkspaceProvider};
use skein_workspace::{Clone, Worktree};
use skein_workspace_conformance::{Ability, Fixture, Ground};

/// Path to mode and bytes of a file, target of a link, or nothing for an empty directory.
type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// FIFOs and sockets hold no bytes and are passed over, as is the workspace's own `.git`.
fn tree(top: &Path) -> Tree {
    let mut found = Tree::new();
    walk(top, Path::new(""), &mut found);
    found
}

fn walk(top: &Path, below: &Path, found: &mut Tree) {
    for entry in fs::read_dir(top.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        let meta = fs::symlink_metadata(entry.path()).unwrap();
        if meta.is_dir() {
            // A repository's own files may be packed differently; the `inspect` scripts ask git instead.
            if !entry.path().join("HEAD").is_file() {
                walk(top, &path, found);
            }
        } else if meta.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            found.insert(path, (0o120_000, target.as_os_str().as_bytes().to_vec()));
        } else if meta.is_file() && path != Path::new(".git") {
            let mode = meta.permissions().mode() & 0o111;
            found.insert(path, (mode, fs::read(entry.path()).unwrap()));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    Both,
    Worktree,
}

struct State {
    kinds: Kinds,
    /// Run in the project before the workspace is made.
    project: &'static str,
    make: &'static str,
    inspect: &'static str,
    after: &'static str,
}

const PLAIN: State = State {
    kinds: Kinds::Both,
    project: ":",
    make: ":",
    inspect: "git status --porcelain --untracked-files=all; git symbolic-ref HEAD || true; git log --oneline -3 || true",
    after: ":",
};

fn fixture(make: impl Fn(&Ground) -> Box<dyn WorkspaceProvider>) -> Fixture {
    let ground = Ground::new();
    ground.configure("[protocol \"file\"]\n\tallow = always\n[core]\n\teditor = true\n");
    // Eight commits by one process.
    ground.project_sh(
        "from='from refs/heads/main^0\n'
         for i in 1 2 3 4 5 6 7 8; do
           printf 'commit refs/heads/main\ncommitter Somebody <somebody@localhost> now\n'
           printf \"data 5\nmany$i\n${from}M 100644 inline many/$i\ndata 2\n$i\n\n\"
           from=
         done | git fast-import --quiet --date-format=now && git reset --quiet --hard",
    );
    Fixture {
        provider: make(&ground),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    }
}

fn there_and_back(state: &State) {
    let worktree = fixture(|g| Box::new(Worktree::new(g.root(), g.options())));
    check(state, &worktree);
    if state.kinds == Kinds::Both {
        let clone = fixture(|g| Box::new(Clone::new(g.root(), g.options())));
        check(state, &clone);
    }
}

fn check(state: &State, fixture: &Fixture) {
    let kind = fixture.provider.kind();
    let ground = &fixture.ground;
    ground.project_sh(state.project);
    let made = fixture.made();
    let path = Path::new(made.path.as_str());
    ground.sh(path, state.make);
    let project = PathBuf::from(ground.project().as_str());
    let outside = || {
        let elsewhere = tree(&ground.path("elsewhere"));
        (
            tree(&project),
            elsewhere,
            ground.project_sh("git status --porcelain"),
        )
    };
    // A clone hands its branch over, so refs may come, but none may move or go.
    let refs = || {
        let refs =
            ground.project_sh("git for-each-ref | grep -v refs/skein/ | grep -v skein/api-7");
        refs.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let refs_before = refs();
    let before = (tree(path), ground.sh(path, state.inspect), outside());
    let (made, _) = fixture.backed_up(&made);
    assert_eq!(tree(path), before.0, "{kind}: a backup changes nothing");
    assert_eq!(
        ground.sh(path, state.inspect),
        before.1,
        "{kind}: a backup changes nothing"
    );
    // As the clean-up does after a kill: a backup of its own, for what was written since.
    let again = fixture
        .provider
        .backup(&fixture.session(), &made, &fixture.saga(2), fixture.now());
    let made = made.with_backup(again.unwrap());
    fixture.provider.remove(&made, Removal::BackedUp).unwrap();
    assert!(!path.exists());
    // Only what refs hold is there after this.
    ground.project_sh(
        "for r in $(git for-each-ref --format='%(refname)' refs/heads); do git reflog expire --expire=now $r; done; \
         git prune --expire=now",
    );
    fixture.make_again(&made);
    assert_eq!(tree(path), before.0, "{kind}: files");
    assert_eq!(ground.sh(path, state.inspect), before.1, "{kind}: inspect");
    assert_eq!(outside(), before.2, "{kind}: outside");
    assert_eq!(
        refs_before.difference(&refs()).count(),
        0,
        "{kind}: refs moved"
    );
    let refs = ground.project_sh("git for-each-ref refs/skein/scratch refs/skein/left");
    assert_eq!(refs, "", "{kind}: refs left behind");
    ground.project_sh("git fsck --no-dangling --no-reflogs");
    ground.sh(path, state.after);
}

macro_rules! states {
    ($($name:ident: $state:expr;)+) => {
        $(
            #[test]
            fn $name() {
                there_and_back(&$state);
            }
        )+
    };
}

/// A script that begins with two branches in conflict.
macro_rules! conflict {
    ($script:literal) => {
        concat!(
            "git branch other; echo ours > two; git commit -qam ours; git switch -q other; \
             echo theirs > two; git commit -qam theirs; echo t2 > t2; git add t2; git commit -qm t2; git switch -q -; ",
            $script
        )
    };
}

const OPERATION: &str =
    "git status; git ls-files --stage; git rev-parse HEAD; git diff; git diff --cached";

states! {
    // What is half-way.
    l5_rebase_in_conflict_goes_on: State {
        make: conflict!("! git rebase -q other"),
        inspect: OPERATION,
        after: "echo both > two; git add two; git rebase --continue; test ! -d \"$(git rev-parse --git-path rebase-merge)\"; test \"$(git log --format=%s | head -3 | tr '\\n' ,)\" = ours,t2,theirs,; test \"$(git branch --show-current)\" = skein/api-7",
        ..PLAIN
    };
    l5_rebase_can_be_aborted: State {
        make: conflict!("! git rebase -q other; echo mine > mine"),
        inspect: OPERATION,
        after: "git rebase --abort; test \"$(git log -1 --format=%s)\" = ours; cat mine",
        ..PLAIN
    };
    l5_rebase_with_autostash_goes_on: State {
        make: conflict!("echo stashed >> src/one; ! git rebase -q --autostash other"),
        inspect: "git ls-files --stage; git rev-parse HEAD",
        after: "echo both > two; git add two; git rebase --continue; grep stashed src/one",
        ..PLAIN
    };
    l5_interactive_rebase_stopped_for_edit: State {
        make: "for i in a b c; do echo $i > $i; git add $i; git commit -qm $i; done; GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git rebase -qi HEAD~3; echo more >> a",
        inspect: OPERATION,
        after: "git add a; git commit -q --amend --no-edit; git rebase --continue; git log --format=%s | head -3 | tr '\\n' , | grep c,b,a,; git show HEAD:a | grep more",
        ..PLAIN
    };
    l5_rebase_apply_backend: State {
        make: conflict!("! git rebase -q --apply other"),
        inspect: OPERATION,
        after: "echo both > two; git add two; git rebase --continue; git log -1 --format=%s | grep ours",
        ..PLAIN
    };
    l5_am_in_progress: State {
        make: conflict!("git format-patch -q -o .. other~2..other; ! git am -q ../0*.patch; rm ../0*.patch"),
        inspect: OPERATION,
        after: "echo both > two; git add two; git am --continue; git log -1 --format=%s | grep t2",
        ..PLAIN
    };
    l5_merge_in_progress: State {
        make: conflict!("! git merge -q other; echo more >> two"),
        inspect: OPERATION,
        after: "git add two; git commit -q --no-edit; git rev-parse HEAD^2; git log -1 --format=%s | grep Merge",
        ..PLAIN
    };
    l5_merge_resolved_but_not_committed: State {
        make: conflict!("! git merge -q other; echo both > two; git add two"),
        inspect: OPERATION,
        after: "git merge --continue; git rev-parse HEAD^2",
        ..PLAIN
    };
    l5_squash_merge_message: State {
        make: "git switch -qc other; echo t > t; git add t; git commit -qm 'squashed subject'; git switch -q -; git merge -q --squash other",
        inspect: "git diff --cached; cat \"$(git rev-parse --git-path SQUASH_MSG)\"",
        ..PLAIN
    };
    l5_cherry_pick_sequence: State {
        make: conflict!("! git cherry-pick other~1 other"),
        inspect: OPERATION,
        after: "echo both > two; git add two; git cherry-pick --continue; git log --format=%s | head -2 | tr '\\n' , | grep t2,theirs,",
        ..PLAIN
    };
    l5_cherry_pick_of_a_branch_that_is_gone: State {
        make: conflict!("! git cherry-pick other~1 other; git branch -qD other"),
        inspect: OPERATION,
        after: "echo both > two; git add two; git cherry-pick --continue; git log -1 --format=%s | grep t2",
        ..PLAIN
    };
    l5_revert_sequence: State {
        make: "for i in a b c; do echo $i > two; git commit -qam $i; done; ! git revert --no-edit HEAD~1 HEAD~2",
        inspect: OPERATION,
        after: "git checkout -q --ours two; git add two; git revert --skip || git revert --quit",
        ..PLAIN
    };
    l5_bisect_in_progress: State {
        make: "git bisect start -q HEAD HEAD~8",
        inspect: "git bisect log; git rev-parse HEAD; git for-each-ref refs/bisect",
        after: "git bisect good; git bisect reset",
        ..PLAIN
    };
    l5_commit_message_draft: State {
        make: "echo x > x; git add x; ! GIT_EDITOR='sh -c \"echo draft of mine > $0; exit 1\"' git commit",
        inspect: "cat \"$(git rev-parse --git-path COMMIT_EDITMSG)\"",
        ..PLAIN
    };

    // The index.
    l5_conflict_stages: State {
        make: conflict!("! git merge -q other; git update-index -q --refresh || true"),
        inspect: "git ls-files --stage; git ls-files --unmerged; git status --porcelain",
        after: "git checkout -q --theirs two; grep theirs two; git checkout -q --ours two; grep ours two",
        ..PLAIN
    };
    l5_conflict_of_deletion: State {
        make: "git switch -qc other; git rm -q two; git commit -qm gone; git switch -q -; echo x > two; git commit -qam x; ! git merge -q other; rm two",
        inspect: "git ls-files --stage; git status --porcelain",
        ..PLAIN
    };
    l5_intent_to_add: State {
        make: "echo new > new; echo n2 > n2; git add -N new n2; echo staged > staged; git add staged",
        ..PLAIN
    };
    l5_assume_unchanged_and_skip_worktree: State {
        make: "git update-index --assume-unchanged two; git update-index --skip-worktree src/one; echo x > two; echo y > src/one",
        inspect: "git ls-files -v; git status --porcelain",
        ..PLAIN
    };
    l5_split_index: State {
        make: "git update-index --split-index; echo s > s; git add s; echo s2 > s2; git add s2; echo u > u",
        ..PLAIN
    };
    l5_untracked_cache_and_stat_settings: State {
        make: "git config core.untrackedCache true; git config core.checkStat minimal; git config core.trustctime false; git update-index --untracked-cache; git status -s; echo u > u; touch -r two ref; printf 'TWO\\nmore\\n' > two; touch -r ref two; rm ref; git config --unset core.checkStat; git config --unset core.trustctime",
        ..PLAIN
    };
    l5_index_that_is_gone: State {
        make: "rm \"$(git rev-parse --git-path index)\"; echo x > x",
        inspect: ":",
        ..PLAIN
    };
    l5_index_lock_left_behind: State {
        make: "echo x > x; git add x; echo y > x; touch \"$(git rev-parse --git-path index.lock)\"",
        after: "git add x",
        ..PLAIN
    };
    l5_cone_sparse_checkout: State {
        make: "git sparse-checkout set --cone src; echo x >> src/one; mkdir many; echo mine > many/mine",
        inspect: "git sparse-checkout list; git ls-files -t | sort; ls; git status --porcelain --untracked-files=all",
        ..PLAIN
    };
    l5_sparse_checkout_with_a_file_outside_that_is_there: State {
        make: "git sparse-checkout set --no-cone /src/; mkdir -p many; echo changed > many/3",
        inspect: "git sparse-checkout list; git ls-files | wc -l; cat many/3",
        ..PLAIN
    };

    // Settings that would hide work.
    l5_ignorecase: State {
        make: "git config core.ignorecase true; echo mine > TWO; mkdir SRC; echo one > SRC/One; echo c > MANY",
        inspect: "cat TWO SRC/One MANY",
        ..PLAIN
    };
    l5_file_mode: State {
        make: "git config core.fileMode false; chmod +x two; chmod -x run.sh",
        inspect: "ls -l two run.sh | cut -c1-10",
        ..PLAIN
    };
    l5_settings_that_hide_changes: State {
        make: "git config status.showUntrackedFiles no; git config diff.ignoreSubmodules all; git config core.ignoreStat true; git config core.precomposeUnicode true; git config core.protectHFS true; git config core.fsync none; git config commit.gpgSign true; git config gpg.program false; git config core.hooksPath /nowhere; echo x > x; echo t > two",
        inspect: "cat x two; git diff --name-only",
        ..PLAIN
    };
    l5_line_ends_of_tracked_files: State {
        make: "git config core.autocrlf input; printf 'two\\r\\nmore\\r\\n' > two; printf '* text=auto\\n*.z text eol=crlf\\n' > .gitattributes; printf 'a\\nb\\r\\nc\\n' > mixed.z; printf 'i $Id: x$\\n' > ident.i; echo '*.i ident' >> .gitattributes; echo '*.u working-tree-encoding=UTF-16' >> .gitattributes; printf 'not utf16' > bad.u",
        inspect: "od -c two mixed.z ident.i bad.u",
        ..PLAIN
    };
    l5_filters_of_the_repository: State {
        make: "git config filter.lossy.clean 'echo clean; touch ../ran'; git config filter.lossy.smudge 'echo smudge'; git config filter.must.required true; git config filter.must.clean false; git config filter.must.smudge cat; echo '*.l filter=lossy' > .gitattributes; echo '*.m filter=must' >> .gitattributes; echo '*.n filter=undefined' >> .gitattributes; for e in l m n; do echo precious-$e > f.$e; done; echo two >> two",
        inspect: "cat f.l f.m f.n; test ! -e ../ran",
        ..PLAIN
    };
    l5_exclude_files_hide_only_ignored_ones: State {
        make: "echo '*.skip' >> \"$(git rev-parse --git-path info/exclude)\"; printf 'junk/\\n' > ../ex; git config core.excludesFile \"$PWD/../ex\"; echo kept > kept; rm -f ../ex",
        inspect: "cat kept; cat two",
        ..PLAIN
    };

    // Files.
    l5_odd_names: State {
        make: "printf a > \"$(printf 'new\\nline')\"; printf b > \"$(printf 'tab\\there')\"; printf c > \"$(printf 'bad\\377utf')\"; printf d > -dash; printf e > --; printf f > '*'; printf g > 'a\"q'; printf h > \"$(printf '%0250d' 7)\"; printf i > 'git~1'; printf j > .gitx; mkdir ' '; printf k > ' /  '; printf l > ':(top)x'; printf m > '\\'",
        ..PLAIN
    };
    l5_names_git_refuses: State {
        make: "mkdir .GIT; echo a > .GIT/config; echo b > .Git; mkdir d; echo c > d/.giT; ln -s x .gitmodules",
        inspect: "cat .GIT/config .Git d/.giT; readlink .gitmodules",
        ..PLAIN
    };
    l5_deep_paths: State {
        make: "p=.; for i in $(seq 40); do p=$p/$(printf 'directory-with-a-long-name-%02d' $i); done; mkdir -p $p; echo deep > $p/file",
        ..PLAIN
    };
    l5_links: State {
        make: "ln -s /nowhere dangling; ln -s /etc/passwd outside; ln -s loop loop; ln -s .. up; ln -s \"$(printf 'new\\nline')\" odd; rm two; ln -s src/one two; ln -s src dirlink",
        ..PLAIN
    };
    l5_files_and_folders_swapped: State {
        make: "rm two; mkdir two; echo in > two/in; rm -r src; echo src > src; git add -A; rm -r two; echo f > two; rm src; mkdir src; echo g > src/g; rm -r many; ln -s /tmp many",
        ..PLAIN
    };
    l5_executable_bits: State {
        make: "chmod -x run.sh; chmod +x two; echo n > n; chmod 755 n; git add n; chmod 644 n",
        ..PLAIN
    };
    l5_fifos_and_sockets_do_not_hang: State {
        make: "mkfifo pipe; rm two; mkfifo two; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"; echo x > x",
        inspect: "cat x",
        ..PLAIN
    };
    l5_unreadable_file: State {
        make: "echo secret > s; chmod 0 s; echo more > two; chmod 0 two",
        inspect: "cat s two",
        ..PLAIN
    };
    l5_a_large_file: State {
        kinds: Kinds::Worktree,
        make: "head -c 100000000 /dev/zero > large; echo end >> large",
        inspect: "cksum large",
        ..PLAIN
    };
    l5_many_small_files: State {
        kinds: Kinds::Worktree,
        make: "mkdir m; for i in $(seq 2000); do echo $i > m/$i; done",
        inspect: "cat m/* | cksum",
        ..PLAIN
    };

    l5_many_converted_files_with_long_names: State {
        kinds: Kinds::Worktree,
        make: "echo '* text eol=crlf' > .gitattributes; python3 -c \"import os; d = '/'.join(['d' * 200] * 12); os.makedirs(d); [open(f'{d}/' + 'f' * 200 + str(n), 'w').write('a\\n') for n in range(1000)]\"",
        inspect: "find ddd* -type f -exec cat {} + | cksum",
        ..PLAIN
    };

    // Repositories inside.
    l5_three_repositories_deep: State {
        make: "for d in a a/b a/b/c a/b/c/d; do git init -q -b main $d; echo $d > $d/file; git -C $d add file; git -C $d commit -qm $d; echo dirty >> $d/file; echo new > $d/new; git -C $d add new; echo newer > $d/new; done; git -C a/b checkout -q --detach",
        inspect: "for d in . a a/b a/b/c a/b/c/d; do git -C $d status --porcelain --branch; git -C $d log --oneline -2; cat $d/new || true; done",
        ..PLAIN
    };
    l5_repositories_without_commits: State {
        make: "git init -q -b trunk empty; git init -q -b trunk files; echo x > files/x; git init -q files/in; echo y > files/in/y; git -C files/in add y",
        inspect: "git -C files status --porcelain --branch; git -C files/in ls-files --stage; git -C files symbolic-ref HEAD",
        ..PLAIN
    };
    l5_a_bare_repository_inside: State {
        make: "git init -q --bare bare.git; git push -q bare.git HEAD:refs/heads/x; git clone -q bare.git tmp; rm -rf tmp; git -C bare.git pack-refs --all; git -C bare.git commit-tree -m bare x^{tree} > bare.git/tip",
        inspect: "git -C bare.git rev-parse x; git -C bare.git cat-file -t $(cat bare.git/tip); git -C bare.git fsck --no-dangling",
        ..PLAIN
    };
    l5_a_sha256_repository_inside: State {
        make: "git init -q --object-format=sha256 inner; cd inner; echo a > a; git add a; git commit -qm a; echo b >> a; echo n > n",
        inspect: "git -C inner log --oneline; git -C inner status --porcelain; cat inner/a inner/n",
        ..PLAIN
    };
    l5_a_reftable_repository_inside: State {
        make: "git init -q --ref-format=reftable inner || git init -q inner; cd inner; echo a > a; git add a; git commit -qm a; git branch topic; echo b >> a",
        inspect: "git -C inner log --oneline --all; git -C inner branch; git -C inner status --porcelain",
        ..PLAIN
    };
    l5_a_shallow_repository_inside_with_commits: State {
        make: "git clone -q --depth 1 \"file://$PWD\" inner; cd inner; echo a > a; git add a; git commit -qm mine; echo b >> a",
        inspect: "git -C inner log --format=%s; git -C inner status --porcelain; cat inner/a",
        ..PLAIN
    };
    l5_a_repository_inside_with_replacements_and_grafts: State {
        make: "git init -q -b main inner; cd inner; for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; git replace HEAD~1 HEAD~2; git rev-parse HEAD > .git/info/grafts; echo d >> f; git notes add -m noted; echo s > s; git add s; git stash -q; echo d2 >> f",
        inspect: "cd inner; git --no-replace-objects log --format='%H %s'; GIT_GRAFT_FILE=/dev/null git --no-replace-objects rev-list --count HEAD; git for-each-ref refs/replace; git stash list | wc -l; git notes show; cat f",
        ..PLAIN
    };
    l5_a_repository_inside_half_way_through_a_rebase: State {
        make: "git init -q -b main inner; cd inner; echo 0 > two; git add two; git commit -qm 0; git branch other; echo ours > two; git commit -qam ours; git switch -q other; echo theirs > two; git commit -qam theirs; git switch -q main; ! git rebase -q other",
        inspect: "git -C inner status; git -C inner ls-files --stage",
        after: "cd inner; echo both > two; git add two; git rebase --continue; git log -1 --format=%s | grep ours",
        ..PLAIN
    };
    l5_a_repository_inside_with_settings_and_hooks: State {
        make: "git init -q -b main inner; cd inner; echo a > a; git add a; git commit -qm a; git remote add up https://host/x; git config user.name Inner; printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; echo '*.o' > .git/info/exclude; echo b >> a",
        inspect: "cd inner; git remote -v; git config user.name; cat .git/hooks/pre-commit .git/info/exclude; ! git commit -qam no",
        ..PLAIN
    };
    l5_a_repository_inside_with_borrowed_objects: State {
        make: "git clone -q -s . inner; cd inner; echo mine > mine; git add mine; git commit -qm mine; echo d >> two",
        inspect: "git -C inner log --oneline -2; git -C inner status --porcelain; git -C inner fsck --no-dangling",
        ..PLAIN
    };
    l5_a_partial_clone_inside: State {
        make: "git init -q -b main src.tmp; cd src.tmp; git config uploadpack.allowFilter true; for i in 1 2 3; do echo $i > f; git add f; git commit -qm $i; done; cd ..; git clone -q --filter=blob:none \"file://$PWD/src.tmp\" inner; rm -rf src.tmp; cd inner; echo mine > mine; git add mine; git commit -qm mine; echo d > f",
        inspect: "git -C inner log --format=%s; git -C inner status --porcelain; git -C inner show HEAD:mine",
        ..PLAIN
    };
    l5_dot_git_that_is_no_repository: State {
        make: "mkdir a b c; echo 'gitdir: /nowhere/at/all' > a/.git; echo a > a/a; echo garbage > b/.git; echo b > b/b; mkdir c/.git; echo h > c/.git/half; echo c > c/c",
        inspect: "cat a/.git a/a b/.git b/b c/.git/half c/c",
        ..PLAIN
    };
    l5_a_repository_inside_that_git_cannot_read: State {
        make: "git init -q -b main inner; cd inner; echo a > a; git add a; git commit -qm mine; echo b >> a; printf '[core]\\n\\trepositoryformatversion = 99\\n' > .git/config",
        inspect: "cat inner/a inner/.git/config; GIT_DIR=inner/.git git log --format=%s 2>&1 | head -1; ls inner/.git/objects | sort",
        ..PLAIN
    };
    l5_submodules_of_submodules: State {
        project: "P=$PWD; mkdir -p ../elsewhere/x ../elsewhere/y; for r in x y; do git init -q -b main ../elsewhere/$r; echo $r > ../elsewhere/$r/$r; git -C ../elsewhere/$r add .; git -C ../elsewhere/$r commit -qm $r; done; git -C ../elsewhere/x submodule --quiet add \"$P/../elsewhere/y\" y; git -C ../elsewhere/x commit -qm y; git submodule --quiet add \"$P/../elsewhere/x\" x; git commit -qm x; git submodule --quiet update --init --recursive",
        make: "for d in x x/y; do echo d >> $d/$(basename $d); echo n > $d/new; git -C $d add new; done; cd x/y; git switch -qc topic; git commit -qm topic; echo n2 > new",
        inspect: "for d in . x x/y; do git -C $d status --porcelain; git -C $d log --oneline -2; done; git -C x/y branch --show-current",
        ..PLAIN
    };
    l5_a_submodule_that_cannot_be_brought: State {
        project: "git init -q -b main ../elsewhere/x; echo x > ../elsewhere/x/x; git -C ../elsewhere/x add .; git -C ../elsewhere/x commit -qm x; git submodule --quiet add \"$PWD/../elsewhere/x\" x; git commit -qm x; git config -f .gitmodules submodule.x.url /nowhere; git config --remove-section submodule.x; git commit -qam nowhere",
        make: "test ! -e x/x; echo n > n; echo mine > x/mine",
        inspect: "cat n x/mine; git ls-files --stage x",
        ..PLAIN
    };
    l5_a_submodule_taken_out_of_the_index: State {
        project: "git init -q -b main ../elsewhere/x; echo x > ../elsewhere/x/x; git -C ../elsewhere/x add .; git -C ../elsewhere/x commit -qm x; git submodule --quiet add \"$PWD/../elsewhere/x\" x; git config submodule.x.ignore all; git commit -qm x",
        make: "cd x; echo more >> x; git commit -qam mine; echo d >> x; cd ..; git rm -q --cached x",
        inspect: "git -C x log --format=%s; git -C x status --porcelain; git ls-files x",
        ..PLAIN
    };

    l5_a_repository_in_a_folder_with_tracked_files: State {
        make: "cd src; git init -q -b main .; git add .; git commit -qm all; echo precious > b.txt; git add b.txt; git commit -qm b; git rm -q b.txt; git commit -qm gone",
        inspect: "git status --porcelain; git -C src log --format='%H %s'; git -C src show HEAD~1:b.txt; git -C src status --porcelain",
        ..PLAIN
    };
    l5_a_repository_that_ignores_tracked_files_of_its_folder: State {
        make: "cd many; git init -q -b main .; echo '[1-5]' > .gitignore; git add .; git commit -qm mine; echo changed > 1; rm 2; echo changed > 6; rm 7; git init -q deep; echo d > deep/d; git -C deep add d; git -C deep commit -qm deep",
        inspect: "git status --porcelain; git -C many log --format='%H %s'; git -C many status --porcelain; git -C many/deep log --format='%H %s'",
        ..PLAIN
    };
    l5_dot_git_that_is_no_repository_in_a_folder_with_tracked_files: State {
        make: "mkdir src/.git; echo notes > src/.git/notes.txt; echo 'gitdir: /nowhere/at/all' > many/.git",
        inspect: "cat src/.git/notes.txt many/.git; git status --porcelain",
        ..PLAIN
    };
    l5_a_repository_below_a_dot_git_that_is_no_repository: State {
        make: "echo garbage > src/.git; git init -q -b main src/in; cd src/in; echo a > a; git add a; git commit -qm mine",
        inspect: "cat src/.git; git -C src/in log --format='%H %s'",
        ..PLAIN
    };
    l5_a_repository_inside_whose_remote_is_gone: State {
        make: "git init -q --bare -b main ../gone.git; git clone -q ../gone.git inner 2>/dev/null; cd inner; git switch -qc main; echo a > a; git add a; git commit -qm mine; git push -q origin main; rm -rf ../../gone.git; git update-ref refs/remotes/x/y HEAD; echo more > ../two",
        inspect: "git -C inner log --format='%H %s'; git -C inner status --porcelain; git -C inner rev-parse refs/remotes/x/y; git status --porcelain",
        ..PLAIN
    };
    l5_a_pushed_repository_inside_that_was_added_as_a_link: State {
        make: "git init -q --bare -b main ../gone.git; git clone -q ../gone.git inner 2>/dev/null; cd inner; git switch -qc main; echo a > a; git add a; git commit -qm mine; git push -q origin main; rm -rf ../../gone.git; cd ..; git -c advice.addEmbeddedRepo=false add inner; git commit -qm link",
        inspect: "git -C inner log --format='%H %s'; git -C inner status --porcelain; git status --porcelain",
        ..PLAIN
    };
    l5_a_file_where_a_submodule_belongs: State {
        project: "git init -q -b main ../elsewhere/x; echo x > ../elsewhere/x/x; git -C ../elsewhere/x add .; git -C ../elsewhere/x commit -qm x; git submodule --quiet add \"$PWD/../elsewhere/x\" x; git commit -qm x",
        make: "rm -rf x; echo precious > x; echo more > two",
        inspect: "cat x two",
        ..PLAIN
    };

    // Heads and refs.
    l5_detached_head: State {
        make: "git switch -q --detach; echo a > two; git commit -qam lost; echo b > two",
        ..PLAIN
    };
    l5_unborn_branch: State {
        make: "git switch -q --orphan fresh; echo a > a; git add a; echo b > b",
        inspect: "git symbolic-ref HEAD; git status --porcelain",
        after: "git commit -qm first; test \"$(git rev-list --count HEAD)\" = 1",
        ..PLAIN
    };
    l5_branch_deleted_under_us: State {
        kinds: Kinds::Worktree,
        make: "echo a > two; git commit -qam mine; git tag -f mine-was; git update-ref -d refs/heads/skein/api-7; git tag -d mine-was; echo b > b",
        inspect: "git symbolic-ref HEAD; cat two b; git ls-files --stage; test \"$(git rev-parse --verify -q HEAD || echo none)\" = none",
        after: "git log --format=%s $(git for-each-ref --format='%(objectname)' refs/skein/backup) | grep -x mine",
        ..PLAIN
    };
    l5_branch_renamed_under_us: State {
        make: "echo a > two; git commit -qam mine; git branch -m renamed; echo b > two",
        ..PLAIN
    };
    l5_refs_of_the_worktree: State {
        kinds: Kinds::Worktree,
        make: "git switch -q --detach; echo a > two; git commit -qam side; git update-ref refs/worktree/mine HEAD; git switch -q -; echo x > x",
        inspect: "git rev-parse refs/worktree/mine; git show refs/worktree/mine:two; git symbolic-ref HEAD; cat x",
        ..PLAIN
    };
    l5_settings_of_the_worktree: State {
        kinds: Kinds::Worktree,
        make: "git config extensions.worktreeConfig true; git config --worktree user.name Other; echo x > x",
        inspect: "git config --worktree user.name; cat x",
        ..PLAIN
    };
    l5_original_head: State {
        make: "echo a > a; git add a; git commit -qm dropped; git reset -q --hard HEAD~1; echo x > x",
        inspect: "git rev-parse ORIG_HEAD; git show ORIG_HEAD:a",
        ..PLAIN
    };
    l5_stash_entries: State {
        make: "echo 1 > two; git stash -q; echo 2 > two; git stash -q; echo u > u; git stash -qu; echo x > x",
        inspect: "git stash list | wc -l; git stash show -p stash@{1}; git show stash@{0}^3:u",
        ..PLAIN
    };
}

#[test]
fn l5_worktree_state_of_a_sha256_project() {
    let ground = Ground::bare();
    ground.project_sh("git init -q -b main --object-format=sha256 .; echo two > two; git add .; git commit -qm first");
    let fixture = Fixture {
        provider: Box::new(Worktree::new(ground.root(), ground.options())),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    };
    let state = State {
        make: conflict!("! git merge -q other; echo new > new"),
        inspect: OPERATION,
        after: "git add two; git commit -q --no-edit",
        ..PLAIN
    };
    check(&state, &fixture);
}

#[test]
fn l5_worktree_state_of_a_reftable_project() {
    let ground = Ground::bare();
    let (can, _) = ground.try_sh(
        ground.project().as_str(),
        "git init -q -b main --ref-format=reftable .; echo two > two; git add .; git commit -qm first",
    );
    if !can {
        // This git has no reftables, so no project can.
        return;
    }
    let fixture = Fixture {
        provider: Box::new(Worktree::new(ground.root(), ground.options())),
        ground,
        abilities: vec![Ability::Managed, Ability::Git],
    };
    let state = State {
        make: conflict!(
            "! git merge -q other; git update-ref refs/worktree/mine HEAD; echo new > new"
        ),
        inspect: "git status; git ls-files --stage; git rev-parse refs/worktree/mine MERGE_HEAD",
        after: "git add two; git commit -q --no-edit; git rev-parse HEAD^2",
        ..PLAIN
    };
    check(&state, &fixture);
}
