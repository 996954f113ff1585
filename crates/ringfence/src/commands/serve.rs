//! `ringfence serve`: the sessions over HTTP, for pages and programs on this machine.
//!
//! It looks at what sessions keep and asks their supervisors; no session needs it, and nothing of a session ends with it. One
//! thread for each connection, one request to a connection.

mod answer;
mod crowd;
mod events;
mod guard;
mod line;
mod place;
mod request;
mod routes;
mod sessions;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use ringfence_session::terminal::Signals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::process::Signal;

use self::answer::Answer;
use self::crowd::{Crowd, Place as Seat};
use self::guard::Door;
use self::line::Line;
use self::place::Place;
use self::request::Request;
use self::routes::Reply;
use crate::cli::ServeArgs;
use crate::error::Failure;
use crate::out::say;

/// What every request is answered with.
#[derive(Debug, Clone)]
struct Server {
    token: Arc<str>,
    /// The administrator's file.
    managed: Arc<Path>,
}

pub(crate) fn run(args: &ServeArgs, managed: &Path) -> Result<ExitCode, Failure> {
    let state = super::sessions::states()?.swap_remove(0);
    let failed = |source| Failure::Serve { source };
    let signals = Signals::block().map_err(failed)?;
    let place = Place::take(&state)?;
    let (loopback, port) = place.loopback(args.port)?;
    let socket = place.socket()?;
    // A directory that goes away while this runs must not be in the way of an answer.
    std::env::set_current_dir("/").map_err(failed)?;
    say(&format!("ringfence: http://127.0.0.1:{port}/#token={}", place.token));
    say(&format!("ringfence: the token and a unix socket are in {}/serve; Ctrl-C ends this", state));
    let server = Server { token: place.token.as_str().into(), managed: PathBuf::from(managed).into() };
    let (crowd, doors) = (Crowd::new(), [(loopback.as_fd(), Door::Loopback(port)), (socket.as_fd(), Door::Socket)]);
    loop {
        let mut fds = vec![PollFd::new(signals.fd(), PollFlags::IN)];
        fds.extend(doors.iter().map(|(fd, _)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(failed(errno.into())),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        while let Some(signal) = signals.next().map_err(failed)? {
            if matches!(signal, Signal::TERM | Signal::INT | Signal::HUP | Signal::QUIT) {
                return Ok(ExitCode::SUCCESS);
            }
        }
        for ((fd, door), _) in doors.iter().zip(&ready[1..]).filter(|(_, is_ready)| **is_ready) {
            if let Some(stream) = accept(*fd, *door) {
                admit(&server, &crowd, stream, *door);
            }
        }
    }
}

/// Takes the next connection. Over the unix socket only the same user's and root's are taken, by the kernel's own word.
fn accept(listener: BorrowedFd<'_>, door: Door) -> Option<OwnedFd> {
    let stream = match rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok(stream) => stream,
        Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
            // It stays in the queue; to look again at once would only keep a processor busy.
            std::thread::sleep(std::time::Duration::from_millis(50));
            return None;
        }
        Err(_) => return None,
    };
    if door == Door::Socket {
        let peer = rustix::net::sockopt::socket_peercred(&stream).map(|peer| peer.uid);
        if !peer.is_ok_and(|uid| uid.is_root() || uid == rustix::process::geteuid()) {
            return None;
        }
    }
    Some(stream)
}

fn admit(server: &Server, crowd: &Crowd, stream: OwnedFd, door: Door) {
    let line = Line::new(stream);
    // Where everybody has shown the token and nobody makes room, whoever comes is not listened to.
    let Some(seat) = crowd.admit(&line) else { return };
    let server = server.clone();
    let talk = move || server.talk(&line, door, seat);
    // Without a thread the connection is closed, as where there is no room.
    let _ = std::thread::Builder::new().name("request".to_owned()).stack_size(2 << 20).spawn(talk);
}

impl Server {
    fn talk(&self, line: &Line, door: Door, mut seat: Seat) {
        let answer = match Request::read(line) {
            Ok(mut request) => match self.answer(&mut request, line, door, &seat) {
                Ok(Reply::Whole(answer)) => answer,
                Ok(Reply::Stream(stream)) if seat.stays() => return stream.tell(line),
                Ok(Reply::Stream(_)) => {
                    Answer::problem(429, "there are too many streams of events already", Some("close one of them"))
                }
                Err(answer) => answer,
            },
            Err(Some(answer)) => answer,
            Err(None) => return,
        };
        // Whoever does not listen is not waited for.
        if answer.send(line).is_ok() {
            line.finish();
        }
    }

    /// The page has nothing to hide. For everything else the token is shown, before anything more is read.
    fn answer(&self, request: &mut Request, line: &Line, door: Door, seat: &Seat) -> Result<Reply, Answer> {
        guard::check_origin(request, door)?;
        if request.path == "/" {
            return routes::page(request).map(Reply::Whole);
        }
        guard::check_token(request, &self.token)?;
        seat.is_known();
        routes::answer(request, line, &self.managed)
    }
}
