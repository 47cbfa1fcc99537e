//! The clients of a holder, and which viewer has the keyboard.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;

use super::client::{ClientConnection, Viewer};
use super::terminal::AgentTerminal;
use crate::frame::{ClientMessage, HolderMessage, VERSION};
use crate::runtime::Size;

const MOST_CLIENTS: usize = 64;
/// Shortest interval between two frames for a viewer.
const DRAW_EVERY: Duration = Duration::from_millis(30);

pub(super) struct Clients {
    pub(super) listener: UnixListener,
    all: Vec<ClientConnection>,
    next: u64,
    /// The viewer that may type.
    typist: Option<u64>,
}

impl Clients {
    pub(super) fn new(listener: UnixListener) -> Self {
        Self {
            listener,
            all: vec![],
            next: 1,
            typist: None,
        }
    }

    /// One entry for each client, in the order of [`Self::ids`].
    pub(super) fn wanted(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.all.iter().map(|client| {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, client.waits());
            PollFd::from_borrowed_fd(client.stream.as_fd(), flags)
        })
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = u64> {
        self.all.iter().map(|client| client.id)
    }

    pub(super) fn is_typist(&self, id: u64) -> bool {
        self.typist == Some(id)
    }

    pub(super) fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let ours = socket_peercred(&stream)
                .is_ok_and(|peer| peer.uid == getuid() || peer.uid.is_root());
            if !ours || self.all.len() >= MOST_CLIENTS || stream.set_nonblocking(true).is_err() {
                continue;
            }
            self.all.push(ClientConnection::new(self.next, stream));
            self.next += 1;
        }
    }

    /// Sends what waits for this client, and returns its requests.
    pub(super) fn serve(&mut self, id: u64) -> Vec<(ClientMessage, Vec<u8>)> {
        let Some(client) = self.find(id) else {
            return vec![];
        };
        client.write();
        client.read()
    }

    pub(super) fn send(&mut self, id: u64, message: &HolderMessage) {
        if let Some(client) = self.find(id) {
            client.send(message, &[]);
        }
    }

    /// Makes a client an observer, which gets changes from now on.
    pub(super) fn greet(&mut self, id: u64, version: u32, sight: &HolderMessage) {
        if let Some(client) = self.find(id) {
            // There is no later version yet.
            client.gone |= version != VERSION;
            client.listens = true;
            client.send(sight, &[]);
        }
    }

    /// Sends a change to all observers.
    pub(super) fn report(&mut self, sight: &HolderMessage) {
        for client in self.all.iter_mut().filter(|c| c.listens) {
            client.send(sight, &[]);
        }
    }

    /// Sends the last message, and waits briefly for slow readers.
    pub(super) fn close(&mut self, ended: &HolderMessage) {
        for client in &mut self.all {
            let _ = client.stream.set_nonblocking(false);
            let timeout = Some(Duration::from_millis(200));
            let _ = client.stream.set_write_timeout(timeout);
            client.send(ended, &[]);
        }
    }

    /// Makes a client a viewer. Returns whether it got the keyboard.
    pub(super) fn view(&mut self, id: u64, version: u32, viewer: Viewer, take: bool) -> bool {
        let typist = self.typist.and_then(|id| self.viewer(id));
        let typist_yields = typist.is_some_and(|viewer| viewer.yields);
        let is_free = self.typist.is_none() || (typist_yields && !viewer.yields);
        let may_type = !viewer.read_only;
        if let Some(client) = self.find(id) {
            client.gone |= version != VERSION;
            client.viewer = Some(viewer);
        }
        if may_type && (take || is_free) {
            return self.take(id);
        }
        self.notify_viewers(None);
        false
    }

    /// Gives the keyboard to `id` and notifies all viewers. Returns whether it changed hands.
    pub(super) fn take(&mut self, id: u64) -> bool {
        let Some(viewer) = self.viewer(id).filter(|viewer| !viewer.read_only) else {
            return false;
        };
        if self.is_typist(id) {
            return false;
        }
        let note = self.typist.map(|_| format!("{} took over", viewer.name));
        self.typist = Some(id);
        // Only the typist's terminal gets the key modes.
        for viewer in self.all.iter_mut().filter_map(|c| c.viewer.as_mut()) {
            viewer.drawn = None;
        }
        self.notify_viewers(note.as_deref());
        true
    }

    /// Changes the size of a viewer's terminal.
    pub(super) fn set_viewport(&mut self, id: u64, size: Size) {
        if let Some(viewer) = self.find(id).and_then(|c| c.viewer.as_mut()) {
            viewer.view.resize(size.rows, size.cols);
            viewer.drawn = None;
        }
    }

    /// The size of the typist's terminal.
    pub(super) fn typist_size(&self) -> Option<Size> {
        let view = &self.viewer(self.typist?)?.view;
        let (rows, cols) = (view.rows, view.cols);
        (rows > 0 && cols > 0).then_some(Size { rows, cols })
    }

    /// Time until the next frame is due for a viewer.
    pub(super) fn draw_due(&self, terminal: &AgentTerminal, now: Instant) -> Option<Duration> {
        let clients = self.all.iter().filter(|client| !client.waits());
        let viewers = clients.filter_map(|client| client.viewer.as_ref());
        let outdated = viewers.filter(|viewer| viewer.drawn != Some(terminal.changes));
        let due = outdated.map(|viewer| viewer.drawn_at.map_or(now, |at| at + DRAW_EVERY));
        due.min().map(|at| at.saturating_duration_since(now))
    }

    /// Draws for each viewer that has received the previous frame; a slow one gets fewer frames.
    pub(super) fn draw(&mut self, terminal: &AgentTerminal) {
        for client in &mut self.all {
            let typing = self.typist == Some(client.id);
            let waits = client.waits();
            let Some(viewer) = &mut client.viewer else {
                continue;
            };
            let due = viewer.drawn_at.is_none_or(|at| at.elapsed() >= DRAW_EVERY);
            if viewer.drawn == Some(terminal.changes) || waits || !due {
                continue;
            }
            let picture = viewer.view.draw(terminal.screen(), typing);
            viewer.drawn = Some(terminal.changes);
            viewer.drawn_at = Some(Instant::now());
            client.send(&HolderMessage::Draw, picture.as_bytes());
        }
    }

    pub(super) fn any_gone(&self) -> bool {
        self.all.iter().any(|client| client.gone)
    }

    /// Removes disconnected clients. Returns whether the keyboard changed hands.
    pub(super) fn remove_gone(&mut self) -> bool {
        let viewer_left = self.all.iter().any(|c| c.gone && c.viewer.is_some());
        self.all.retain(|client| !client.gone);
        if self.typist.is_some_and(|id| self.viewer(id).is_none()) {
            self.typist = None;
            // The longest-attached viewer types next; one that yields comes last.
            let viewers = self
                .all
                .iter()
                .filter_map(|c| Some((c.id, c.viewer.as_ref()?)));
            let next = viewers
                .filter(|(_, viewer)| !viewer.read_only)
                .min_by_key(|(_, viewer)| viewer.yields);
            if let Some((id, _)) = next {
                return self.take(id);
            }
        }
        if viewer_left {
            self.notify_viewers(None);
        }
        false
    }

    fn notify_viewers(&mut self, note: Option<&str>) {
        let viewers = self.all.iter().filter(|c| c.viewer.is_some()).count();
        let typist = self.typist.and_then(|id| self.viewer(id));
        let typist = typist.map(|viewer| viewer.name.clone());
        for client in self.all.iter_mut().filter(|c| c.viewer.is_some()) {
            let state = HolderMessage::State {
                typist: typist.clone(),
                typing: Some(client.id) == self.typist,
                viewers: u32::try_from(viewers).unwrap_or(u32::MAX),
                note: note.map(ToOwned::to_owned),
            };
            client.send(&state, &[]);
        }
    }

    fn find(&mut self, id: u64) -> Option<&mut ClientConnection> {
        self.all.iter_mut().find(|client| client.id == id)
    }

    fn viewer(&self, id: u64) -> Option<&Viewer> {
        let client = self.all.iter().find(|client| client.id == id)?;
        client.viewer.as_ref()
    }
}
