//! The queue of input: numbered, in order, at the speed of the terminal.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use rustix::io::{Errno, write};

use crate::log::acts;

/// Most queued bytes; a paste of 16 MB fits.
const MOST: usize = 32 << 20;
/// Most queued bytes of viewers' keys; more is dropped.
const MOST_KEYS: usize = 1 << 20;
/// Bytes of one write; a pty accepts about this much at once.
const PIECE: usize = 4096;
/// Writes per round, so that others are served too.
const ROUND: usize = 64;

/// The client that waits for an input to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) client: u64,
    pub(super) request: u64,
    pub(super) before: bool,
}

#[derive(Debug)]
struct Job {
    bytes: Vec<u8>,
    at: usize,
    number: u64,
    waiters: Vec<Waiter>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    /// The waiter gets its answer once all of it is written.
    Waits,
    Before,
    Full,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    jobs: VecDeque<Job>,
    answers: Vec<u8>,
    pending: usize,
    /// Highest number queued or written.
    accepted: u64,
    /// Highest number written completely.
    pub(super) written: u64,
}

impl Queue {
    /// Queues `bytes` under a number; each number once, in growing order.
    pub(super) fn push(&mut self, number: u64, bytes: Vec<u8>, waiter: Waiter) -> Accepted {
        if number <= self.accepted {
            let under_way = self.jobs.iter_mut().find(|job| job.number == number);
            let Some(job) = under_way.filter(|_| number > self.written) else {
                return Accepted::Before;
            };
            job.waiters.push(Waiter {
                before: true,
                ..waiter
            });
            return Accepted::Waits;
        }
        if self.pending + bytes.len() > MOST {
            return Accepted::Full;
        }
        self.accepted = number;
        self.add(number, bytes, vec![waiter]);
        Accepted::Waits
    }

    /// Queues a viewer's keys; drops them if too much is queued.
    pub(super) fn keys(&mut self, bytes: Vec<u8>) {
        if self.pending + bytes.len() <= MOST_KEYS {
            self.add(0, bytes, vec![]);
        }
    }

    /// Queues answers to the program's queries; they never interrupt a paste.
    pub(super) fn answer(&mut self, bytes: &[u8]) {
        if self.answers.len() + bytes.len() <= PIECE {
            self.answers.extend_from_slice(bytes);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.answers.is_empty()
    }

    /// Writes what the terminal accepts now; returns the finished waiters.
    pub(super) fn write_to(&mut self, terminal: impl AsFd) -> Vec<Waiter> {
        let mut done = vec![];
        for _ in 0..ROUND {
            let between = self.jobs.front().is_none_or(|job| job.at == 0);
            if between && !self.answers.is_empty() {
                match write(&terminal, &self.answers) {
                    Ok(taken) => drop(self.answers.drain(..taken)),
                    Err(_) => break,
                }
                continue;
            }
            let Some(job) = self.jobs.front_mut() else {
                break;
            };
            let piece = &job.bytes[job.at..(job.at + PIECE).min(job.bytes.len())];
            if !piece.is_empty() {
                match write(&terminal, piece) {
                    Ok(taken) => {
                        job.at += taken;
                        self.pending -= taken;
                    }
                    Err(Errno::INTR) => {}
                    // Full, or closed; the exit is reported elsewhere.
                    Err(_) => break,
                }
            }
            if job.at == job.bytes.len() {
                self.written = self.written.max(job.number);
                done.append(&mut job.waiters);
                self.jobs.pop_front();
            }
        }
        done
    }

    /// All remaining waiters; their input will not be written.
    pub(super) fn drop_waiters(&mut self) -> Vec<Waiter> {
        self.answers.clear();
        self.pending = 0;
        self.jobs.drain(..).flat_map(|job| job.waiters).collect()
    }

    fn add(&mut self, number: u64, bytes: Vec<u8>, waiters: Vec<Waiter>) {
        self.pending += bytes.len();
        self.jobs.push_back(Job {
            bytes,
            at: 0,
            number,
            waiters,
        });
    }
}

/// A text as a terminal pastes it. It contains no control characters, so it can neither end its bracket nor press a
/// key.
pub(super) fn paste(text: &str, bracketed: bool) -> Vec<u8> {
    let text = text.replace("\r\n", "\n");
    let mut bytes = Vec::with_capacity(text.len() + 12);
    if bracketed {
        bytes.extend(b"\x1b[200~");
    }
    let mut buffer = [0; 4];
    for c in text.chars() {
        match c {
            // Enter sends a carriage return, and so does a terminal on paste.
            '\n' | '\r' => bytes.push(b'\r'),
            '\t' => bytes.push(b'\t'),
            c if acts(c) && c.is_control() => {}
            c => bytes.extend(c.encode_utf8(&mut buffer).as_bytes()),
        }
    }
    if bracketed {
        bytes.extend(b"\x1b[201~");
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(request: u64) -> Waiter {
        Waiter {
            client: 1,
            request,
            before: false,
        }
    }

    #[test]
    fn l6_a_number_under_way_is_waited_for_and_one_written_is_before() {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let mut queue = Queue::default();
        let big = vec![b'x'; 1 << 20];
        assert_eq!(queue.push(1, big.clone(), waiter(1)), Accepted::Waits);
        assert_eq!(queue.write_to(&writer), []);
        assert_eq!(queue.push(1, big, waiter(2)), Accepted::Waits);
        queue.answer(b"answer");
        let mut done = vec![];
        let mut got = vec![];
        let mut buffer = vec![0; 1 << 16];
        while !queue.is_empty() {
            let count = rustix::io::read(&reader, &mut buffer[..]).unwrap();
            got.extend_from_slice(&buffer[..count]);
            done.extend(queue.write_to(&writer));
        }
        let again = Waiter {
            before: true,
            ..waiter(2)
        };
        assert_eq!(done, [waiter(1), again]);
        while let Ok(count) = rustix::io::read(&reader, &mut buffer[..]) {
            got.extend_from_slice(&buffer[..count]);
        }
        assert!(got.ends_with(b"xanswer") && got.len() == (1 << 20) + 6);
        assert_eq!(queue.push(1, vec![], waiter(3)), Accepted::Before);
        assert_eq!(queue.written, 1);
    }

    #[test]
    fn l15_a_paste_holds_nothing_that_acts() {
        assert_eq!(paste("a\nb\r\nc\td", false), b"a\rb\rc\td");
        assert_eq!(
            paste("x\x1b[201~\x03\u{9b}y", true),
            b"\x1b[200~x[201~y\x1b[201~"
        );
    }
}
