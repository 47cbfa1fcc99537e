//! A cold tier that was tampered with, or cannot be used: told clearly, and nothing is changed because of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::Home;
use crate::transcript::configure;
use crate::transcript::tiers::own;
use crate::transcript::{append, ids, say};

/// Every file below, with its contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// The one file of a folder.
fn only(folder: &Path) -> PathBuf {
    let mut found = files(folder).into_keys();
    let one = found.next().unwrap();
    assert_eq!(found.next(), None, "{folder:?}");
    one
}

/// Two transcripts that are cold, each with a manifest and a segment.
struct Cold {
    home: Home,
    sessions: [String; 2],
    place: PathBuf,
}

impl Cold {
    fn new() -> Self {
        let home = Home::with_project();
        let sessions = [home.spawn(&["one"]), home.spawn(&["two"])];
        for (session, word) in sessions.iter().zip(["first", "second"]) {
            say(&home, session, "user", "m1", word);
            home.json(&["transcript", "flush", session]);
        }
        let place = own(&home, &home.root().join("cold")).join("default");
        Self {
            home,
            sessions,
            place,
        }
    }

    fn manifest(&self, n: usize) -> PathBuf {
        self.place.join("manifests").join(&self.sessions[n])
    }

    fn segment(&self, n: usize) -> PathBuf {
        only(&self.place.join("segments").join(&self.sessions[n]))
    }

    /// Nothing can be done with the first one, nothing is changed, and the other one is as it was.
    fn is_refused(&self, how: &str) {
        let session = self.sessions[0].as_str();
        let (cold, append) = (files(&self.place), append(session, "user", "m2", "x"));
        for args in [
            &["transcript", "show", session][..],
            &["transcript", "export", session, "--out", "out"],
            &["transcript", "hydrate", session],
            &["transcript", "rewind", session, "--to", "m1"],
            &["fork", session, "--at", "m1"],
            &append,
        ] {
            let ran = self.home.run(&[&["--json"], args].concat());
            assert_eq!(ran.code, 6, "{how}: {args:?}: {ran:?}");
            let error = ran.error();
            assert_eq!(error["kind"], "unavailable", "{how}: {error}");
            let message = error["message"].to_string() + &error["details"].to_string();
            assert!(message.contains("damaged"), "{how}: {args:?}: {error}");
            let hints = error["hints"].to_string();
            assert!(hints.contains("skein doctor"), "{how}: {args:?}: {error}");
        }
        assert_eq!(files(&self.place), cold, "{how}");
        assert_eq!(ids(&self.home, &self.sessions[1]), ["m1"], "{how}");
        let found = self.home.json(&["transcript", "search", "second"]);
        assert_eq!(found["data"][0]["message"], "m1", "{how}");
    }
}

#[test]
fn l13_damaged_objects_of_the_cold_tier_are_told_and_left_alone() {
    let cold = Cold::new();
    for part in [Cold::manifest, Cold::segment] {
        let (path, other) = (part(&cold, 0), part(&cold, 1));
        let (whole, theirs) = (fs::read(&path).unwrap(), fs::read(&other).unwrap());
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0x10;
        for (how, bytes) in [
            ("empty", vec![]),
            ("truncated", whole[..whole.len() - 7].to_vec()),
            ("a head only", whole[..16].to_vec()),
            ("bit-flipped", flipped),
            ("longer", [&whole[..], b"more"].concat()),
            ("another transcript's", theirs),
            ("a page", b"<html>log in first</html>".to_vec()),
        ] {
            fs::write(&path, bytes).unwrap();
            // Nothing of it is in the memory of the daemon.
            cold.home.stop();
            cold.is_refused(&format!("{how}: {path:?}"));
        }
        fs::write(&path, &whole).unwrap();
        assert_eq!(ids(&cold.home, &cold.sessions[0]), ["m1"]);
    }
    let session = &cold.sessions[0];
    say(&cold.home, session, "user", "m2", "x");
    assert_eq!(ids(&cold.home, session), ["m1", "m2"]);
}

#[test]
fn l13_a_transcript_of_another_home_is_not_taken_for_ones_own() {
    let (cold, other) = (Cold::new(), Cold::new());
    say(&other.home, &other.sessions[0], "user", "theirs", "x");
    other
        .home
        .json(&["transcript", "flush", &other.sessions[0]]);
    cold.home.stop();
    // The manifest alone; what it names is not here.
    let ours = fs::read(cold.manifest(0)).unwrap();
    fs::copy(other.manifest(0), cold.manifest(0)).unwrap();
    cold.is_refused("a manifest of another home");
    fs::write(cold.manifest(0), ours).unwrap();
    assert_eq!(ids(&cold.home, &cold.sessions[0]), ["m1"]);
}

#[test]
fn l13_a_cold_tier_that_cannot_be_written_leaves_everything_as_it_is() {
    let home = Home::new();
    let file = home.user().join("file");
    fs::write(&file, "in the way").unwrap();
    let places = [
        file.clone(),
        file.join("below"),
        // Not even root can make something here.
        PathBuf::from("/proc/skein-cold"),
    ];
    for (n, place) in places.iter().enumerate() {
        // Begun while there is a place: whether a transcript is there already is asked of both tiers.
        configure(&home, "");
        if n == 0 {
            home.json(&["project", "add", "--no-folder", "--name", "api"]);
        }
        let session = home.spawn(&["work"]);
        say(&home, &session, "user", "m1", "x");
        home.stop();
        configure(&home, &format!("[transcripts]\ncold = {place:?}\n"));
        let thread = home.show(&session)["thread"].as_str().unwrap().to_owned();
        for args in [
            &["transcript", "flush", &session][..],
            &["thread", "archive", &thread],
        ] {
            let error = home.error(6, args);
            let told = error.to_string();
            assert!(told.contains(place.to_str().unwrap()), "{args:?}: {error}");
            assert_ne!(error["hints"], serde_json::json!([]), "{args:?}");
        }
        say(&home, &session, "user", "m2", "y");
        assert_eq!(ids(&home, &session), ["m1", "m2"]);
        assert_eq!(home.show(&session)["transcript"]["tier"], "hot");
        assert_eq!(home.json(&["thread", "show", &thread])["state"], "open");
        home.stop();
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "in the way");
}
