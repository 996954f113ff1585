//! The one thread that carries everything out: it answers names, accepts connections and relays them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use ringfence_surface::{AbsPath, HostTarget};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle as Task, LocalSet};
use tokio::time::{Duration, sleep, timeout};

use crate::asks::Asks;
use crate::buffers::Share;
use crate::dial::{self, NoConnection};
use crate::dns::{Kind, Question};
use crate::gate::Gate;
use crate::handshake::Handshakes;
use crate::inject::{self, Credential, NotInjected, Outward};
use crate::lever::{self, Lever, Order};
use crate::names::{answer_datagrams, answer_streams};
use crate::open::{Meant, Open, Ticket};
use crate::packets::{self, PacketAttempt};
use crate::pool::{Addresses, Pool, Synthetic};
use crate::proxy::Asked;
use crate::reached::Reached;
use crate::refusals::{Attempt, Refusals, Transport, Why};
use crate::relay::{self, Stream, relay};
use crate::resolver::Resolver;
use crate::room::Room;
use crate::rules::{BOTH_LOOPBACKS, Rules};
use crate::sockets;

/// How long an answer about a name may be kept inside. The address never changes, but a grant may end.
const TTL: u32 = 60;
/// Where names are asked for.
const DNS: u16 = 53;

/// Makes a listener inside; `None` where somebody listens there already.
pub type Listen = Box<dyn FnMut(SocketAddr) -> io::Result<Option<OwnedFd>> + Send>;

/// The sockets of the namespace.
pub struct Inside {
    /// Which addresses are local there.
    pub addresses: Addresses,
    /// Where names are asked for: UDP and TCP of each family.
    pub dns: Vec<(OwnedFd, OwnedFd)>,
    /// See what is tried, each one protocol of one family.
    pub arrivals: Vec<OwnedFd>,
    /// Answer it, each one family. With none connections are accepted before they are dialled.
    pub injectors: Vec<OwnedFd>,
    /// Those of [`Rules::listeners`]; none where somebody listens there already.
    pub first: Vec<(SocketAddr, Option<OwnedFd>)>,
    /// Makes further listeners.
    pub listen: Listen,
    /// Sockets with a path, and whom they stand for on the host.
    pub sockets: Vec<(std::os::unix::net::UnixListener, AbsPath)>,
}

/// A running way out. It ends with the value.
#[derive(Debug)]
pub struct Egress {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    refusals: Refusals,
    reached: Reached,
    lever: Lever,
    asks: Asks,
}

impl Egress {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there is no thread or no descriptor left.
    pub fn start(inside: Inside, rules: Rules, resolver: Arc<dyn Resolver>) -> io::Result<Self> {
        let refusals = Refusals::default();
        let (stop, stopped) = oneshot::channel();
        let reached = Reached::default();
        let (noted, used) = (refusals.clone(), reached.clone());
        let (lever, orders) = lever::pair();
        let asks = Asks::default();
        let asked = asks.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || {
            let local = LocalSet::new();
            local.block_on(&runtime, async {
                tokio::select! {
                    () = serve(inside, rules, resolver, (noted, asked, used), orders) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("egress".to_owned()).stack_size(512 * 1024).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread), refusals, reached, lever, asks })
    }

    /// What was stopped so far.
    #[must_use]
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Who was reached so far.
    #[must_use]
    pub fn reached(&self) -> &Reached {
        &self.reached
    }

    /// Names that wait until somebody has decided about them.
    #[must_use]
    pub fn asks(&self) -> &Asks {
        &self.asks
    }

    /// What changes it while it runs.
    #[must_use]
    pub fn lever(&self) -> &Lever {
        &self.lever
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It only ends early by a panic, which it has told.
            let _ = thread.join();
        }
    }
}

/// What every task shares.
pub(crate) struct Shared {
    /// What may be reached at the moment.
    pub(crate) rules: RefCell<Rules>,
    addresses: Addresses,
    resolver: Arc<dyn Resolver>,
    pub(crate) refusals: Refusals,
    pub(crate) reached: Reached,
    pub(crate) asks: Asks,
    pub(crate) state: RefCell<State>,
    /// How many names may have listeners.
    pub(crate) most_names: usize,
    /// Connections that may still be made. More are refused, and said.
    connections: Arc<Semaphore>,
    /// Those that are carried.
    pub(crate) open: Open,
    /// Those that are not accepted yet.
    pub(crate) handshakes: Handshakes,
    outward: Outward,
}

/// What changes.
pub(crate) struct State {
    pub(crate) pool: Pool,
    listen: Listen,
    /// Ports with a listener for every address. That stays so when nothing may be reached there any more.
    pub(crate) everywhere: BTreeSet<u16>,
    /// Names and addresses that have listeners, at which ports, and who accepts there.
    pub(crate) ready: HashMap<String, BTreeMap<u16, Vec<Task<()>>>>,
}

impl State {
    /// May one more have listeners, or has it some already?
    pub(crate) fn has_room(&self, name: &str, most: usize) -> bool {
        self.ready.len() < most || self.ready.contains_key(name)
    }

    /// The addresses of a name; none where so many have one already.
    fn address_of(&mut self, name: &str, most: usize) -> Option<Synthetic> {
        if self.has_room(name, most) { self.pool.address_of(name) } else { None }
    }
}

async fn serve(
    inside: Inside,
    rules: Rules,
    resolver: Arc<dyn Resolver>,
    (refusals, asks, reached): (Refusals, Asks, Reached),
    orders: mpsc::UnboundedReceiver<Order>,
) {
    let room = Room::take(inside.addresses);
    let everywhere = rules.ports_everywhere(inside.addresses);
    let state = State { pool: Pool::of(inside.addresses), listen: inside.listen, everywhere, ready: HashMap::new() };
    let proxy = inside.addresses.proxy();
    let shared = Rc::new(Shared {
        rules: RefCell::new(rules),
        addresses: inside.addresses,
        resolver,
        refusals,
        reached,
        asks,
        state: RefCell::new(state),
        most_names: room.names,
        connections: Arc::new(Semaphore::new(room.connections)),
        open: Open::new(),
        handshakes: Handshakes::new(inside.injectors),
        outward: Outward::new(),
    });
    for (datagrams, listener) in inside.dns {
        tokio::task::spawn_local(answer_datagrams(Rc::clone(&shared), datagrams));
        tokio::task::spawn_local(answer_streams(Rc::clone(&shared), listener));
    }
    for (listener, path) in inside.sockets {
        tokio::task::spawn_local(sockets::accept(Rc::clone(&shared), listener, path));
    }
    for (address, listener) in inside.first {
        let to = match address {
            own if own == proxy => To::Asked,
            own if own.ip().is_loopback() => To::HostPort(own.port()),
            _ => To::Dialled,
        };
        drop(shared.accept_at(address, Ok(listener), to));
    }
    for socket in inside.arrivals {
        let seen = Rc::clone(&shared);
        let unexpected = move |to: PacketAttempt| {
            let is_expected = seen.is_expected(&to);
            let address = to.address;
            seen.take_up(to);
            (!is_expected).then(|| seen.in_words(address))
        };
        let refusals = shared.refusals.clone();
        tokio::task::spawn_local(packets::watch(socket, unexpected, refusals));
    }
    lever::obey(&shared, orders).await;
    std::future::pending::<()>().await;
}

/// Where an accepted connection goes.
#[derive(Debug, Clone)]
pub(crate) enum To {
    /// The host that the address stands for.
    Host(HostTarget),
    /// Whatever address was dialled, if the policy has it.
    Dialled,
    /// A port of the host's own loopback.
    HostPort(u16),
    /// Whatever the program asks the proxy for.
    Asked,
}

impl Shared {
    /// Has somebody accept at an address; `None` where that cannot be, which is noted.
    pub(crate) fn listen(self: &Rc<Self>, address: SocketAddr, to: To) -> Option<Task<()>> {
        let made = (self.state.borrow_mut().listen)(address);
        self.accept_at(address, made, to)
    }

    fn accept_at(self: &Rc<Self>, address: SocketAddr, made: io::Result<Option<OwnedFd>>, to: To) -> Option<Task<()>> {
        let why = match made {
            Ok(Some(socket)) => match TcpListener::from_std(socket.into()) {
                Ok(listener) => return Some(tokio::task::spawn_local(accept(Rc::clone(self), listener, to))),
                Err(cause) => Why::Failed(cause.to_string()),
            },
            Ok(None) => Why::AddressTaken,
            Err(cause) => Why::Failed(cause.to_string()),
        };
        self.refusals.note(tcp(address), why);
        None
    }

    /// Has every port at which a name may be reached listened on.
    pub(crate) fn make_ready(self: &Rc<Self>, name: &str, given: Synthetic) {
        let (ports, everywhere) = (self.rules.borrow().ports_of(name), self.ports_everywhere());
        // At the others somebody listens already, for every address.
        for port in ports.into_iter().filter(|port| !everywhere.contains(port)) {
            let is_open = |at: &BTreeMap<u16, _>| at.contains_key(&port);
            let Ok(target) = HostTarget::new(name, port) else { continue };
            if self.state.borrow().ready.get(name).is_some_and(is_open) {
                continue;
            }
            let both = [given.v4.into(), given.v6.into()];
            let at = self.of_both_kinds(&both).iter().map(|ip| SocketAddr::new(*ip, port));
            let made = at.filter_map(|address| self.listen(address, To::Host(target.clone()))).collect();
            self.state.borrow_mut().ready.entry(name.to_owned()).or_default().insert(port, made);
        }
        self.state.borrow_mut().ready.entry(name.to_owned()).or_default();
    }

    /// Answers a question about a name.
    pub(crate) fn answer(self: &Rc<Self>, question: &Question) -> Vec<u8> {
        let name = &question.name;
        if name == "localhost" || name.ends_with(".localhost") {
            return question.answer(self.of_both_kinds(&[Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]), TTL);
        }
        if self.rules.borrow().ports_of(name).is_empty() {
            // Programs look for the names of addresses without meaning to reach anybody.
            if matches!(question.kind, Kind::A | Kind::Aaaa) {
                self.refusals.note(Attempt::Name(name.clone()), Why::NotNamed);
            }
            return question.no_such_name();
        }
        if !matches!(question.kind, Kind::A | Kind::Aaaa) {
            return question.empty();
        }
        let given = self.state.borrow_mut().address_of(name, self.most_names);
        let Some(given) = given else {
            self.refusals.note(Attempt::Name(name.clone()), Why::TooManyNames);
            return question.failed();
        };
        let is_ready = self.state.borrow().ready.contains_key(name);
        if !is_ready {
            self.make_ready(name, given);
        }
        question.answer(self.of_both_kinds(&[given.v4.into(), given.v6.into()]), TTL)
    }

    /// The ports at which somebody listens for every address.
    pub(crate) fn ports_everywhere(&self) -> BTreeSet<u16> {
        self.rules.borrow().ports_everywhere(self.addresses)
    }

    /// Does a connection to an address arrive here?
    pub(crate) fn arrives(&self, ip: IpAddr) -> bool {
        match self.addresses {
            Addresses::Everywhere => true,
            Addresses::Loopback => ip.is_ipv4() && ip.is_loopback(),
        }
    }

    /// An address of each kind, the older first; only that one where the newer is not to be had.
    fn of_both_kinds<'a>(&self, both: &'a [IpAddr; 2]) -> &'a [IpAddr] {
        match self.addresses {
            Addresses::Everywhere => both,
            Addresses::Loopback => &both[..1],
        }
    }

    /// The right to carry one more connection; that there is none is noted.
    pub(crate) fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.connections).try_acquire_owned().ok();
        if permit.is_none() {
            self.refusals.note(Attempt::Connection, Why::TooManyConnections);
        }
        permit
    }

    /// What one more connection gets of the kernel's memory.
    pub(crate) fn share(&self) -> Share {
        // The one that asks is among them.
        Share::beside(self.open.count().saturating_sub(1))
    }

    /// Is this a packet that somebody here answers, or that stays inside by right?
    fn is_expected(&self, to: &PacketAttempt) -> bool {
        let address = to.address.ip().to_canonical();
        // Questions about names, and our answers to them.
        let is_dns = to.address.port() == DNS || to.protocol == Transport::Udp && to.from == DNS;
        if address.is_loopback() || is_dns || to.address == self.addresses.proxy() {
            return true;
        }
        let port = to.address.port();
        let is_tcp = to.protocol == Transport::Tcp;
        is_tcp && self.meant(address, port).is_some_and(|target| self.admits(&target))
    }

    /// Dials for a connection that was begun, where that comes first.
    fn take_up(self: &Rc<Self>, attempt: PacketAttempt) {
        let (address, port) = (attempt.address.ip().to_canonical(), attempt.address.port());
        let Some(syn) = attempt.syn.filter(|syn| self.handshakes.precede(&syn.ends())) else { return };
        let is_held = self.state.borrow().everywhere.contains(&port);
        // Names are asked for without more ado, and a proxy is asked where a connection is to go once it stands. The kernel accepts
        // both, unless the listener is one for every address.
        if port == DNS || attempt.address == self.addresses.proxy() {
            if is_held && port != DNS {
                self.handshakes.admit(&syn);
            }
            return;
        }
        match self.meant(address, port).filter(|target| self.admits(target)) {
            Some(target) => self.begin(syn, target),
            // It may have been revoked since the listener was made, or never granted at this address.
            None if is_held => self.handshakes.refuse(&syn),
            // The kernel refuses it.
            None => {}
        }
    }

    /// The name and the port that an address of ours stands for; others as they are.
    fn in_words(&self, address: SocketAddr) -> String {
        let name = self.state.borrow().pool.name_of(address.ip().to_canonical()).map(str::to_owned);
        name.map_or_else(|| address.to_string(), |name| format!("{name}:{}", address.port()))
    }

    /// May this be reached, by itself or with a credential?
    pub(crate) fn admits(&self, target: &HostTarget) -> bool {
        self.rules.borrow().admits(target) || self.injects(target).is_some()
    }

    /// What is added for a program that speaks plainly, because a credential is added outside.
    pub(crate) fn injects(&self, target: &HostTarget) -> Option<Credential> {
        if target.port() != inject::PLAIN {
            return None;
        }
        self.rules.borrow().credential_of(target.name()).cloned()
    }

    /// Whom an address means: the host that it was given to, or itself.
    fn meant(&self, address: IpAddr, port: u16) -> Option<HostTarget> {
        let name = self.state.borrow().pool.name_of(address).map(str::to_owned);
        HostTarget::new(&name.unwrap_or_else(|| address.to_string()), port).ok()
    }
}

/// The next connection. Without descriptors left it waits a little: those that end give some back.
pub(crate) async fn accepted(listener: &TcpListener, shared: &Shared) -> Option<TcpStream> {
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(cause) => {
            shared.refusals.note(Attempt::Accept, Why::Failed(cause.to_string()));
            sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

async fn accept(shared: Rc<Shared>, listener: TcpListener, to: To) {
    loop {
        let Some(stream) = accepted(&listener, &shared).await else { continue };
        let to = match &to {
            To::Host(_) | To::Dialled if shared.handshakes.is_on() => {
                if stream.local_addr().is_ok_and(|to| to != shared.addresses.proxy()) {
                    shared.handshakes.accepted(stream);
                    continue;
                }
                To::Asked
            }
            to => to.clone(),
        };
        let Some(permit) = shared.permit() else {
            Stream::Tcp(stream).reset();
            continue;
        };
        let shared = Rc::clone(&shared);
        tokio::task::spawn_local(async move {
            let _permit = permit;
            carry(&shared, stream, to).await;
        });
    }
}

async fn carry(shared: &Rc<Shared>, stream: TcpStream, to: To) {
    // Small writes go out at once, as they came.
    let _ = stream.set_nodelay(true);
    // Without it the kernel takes more memory, and the connection is as good.
    let _ = Share::beside(shared.open.count()).of_accepted(&stream);
    let target = match to {
        To::Host(target) => Some(target),
        To::HostPort(port) => return to_host_port(shared, stream, port).await,
        To::Asked => return asked(shared, stream).await,
        To::Dialled => {
            let dialled = stream.local_addr().map(|address| (address.ip().to_canonical(), address.port()));
            dialled.ok().and_then(|(ip, port)| shared.meant(ip, port))
        }
    };
    let Some(target) = target else {
        shared.refusals.note(Attempt::NoDestination, Why::NoDestination);
        return Stream::Tcp(stream).reset();
    };
    // It may have been taken away since somebody began to listen there.
    if !shared.admits(&target) {
        shared.refusals.note(tcp(&target), Why::NotNamed);
        return Stream::Tcp(stream).reset();
    }
    let ticket = shared.open.enter(Meant::Host(target.clone()));
    if let Some(credential) = shared.injects(&target) {
        return ticket.unless_cut(inject(shared, stream, &target, &credential, &[])).await.unwrap_or_default();
    }
    let inside = Stream::Tcp(stream);
    match ticket.unless_cut(reach(shared, &target)).await {
        Some(Ok(outside)) => finish(shared, (&inside, &outside), &target, &[], &ticket).await,
        Some(Err(_)) | None => inside.reset(),
    }
}

fn tcp(to: impl fmt::Display) -> Attempt {
    Attempt::Reach { by: Transport::Tcp, to: to.to_string() }
}

/// Connects to a host, and notes why not.
pub(crate) async fn reach(shared: &Shared, target: &HostTarget) -> Result<Stream, NoConnection> {
    let connected = async {
        let opt_in = shared.rules.borrow().opt_in(target);
        let addresses = dial::addresses(target, opt_in, shared.resolver.as_ref()).await?;
        dial::connect(&addresses, target.port(), opt_in, shared.share()).await
    };
    let stream = connected.await.inspect_err(|why: &NoConnection| {
        shared.refusals.note(tcp(target), why.into());
    })?;
    shared.reached.note(target.to_string());
    let _ = stream.set_nodelay(true);
    Ok(Stream::Tcp(stream))
}

/// Carries requests with a credential, over TLS.
async fn inject(shared: &Shared, stream: TcpStream, target: &HostTarget, credential: &Credential, first: &[u8]) {
    let Ok(secure) = HostTarget::new(target.name(), inject::SECURE) else { return };
    let Ok(outside) = reach(shared, &secure).await else { return Stream::Tcp(stream).reset() };
    inject_over(shared, (stream, outside), (target, &secure), credential, first).await;
}

/// The same over a connection to the host that stands already.
pub(crate) async fn inject_over(
    shared: &Shared,
    (stream, outside): (TcpStream, Stream),
    (target, secure): (&HostTarget, &HostTarget),
    credential: &Credential,
    first: &[u8],
) {
    let Stream::Tcp(outside) = outside else { return };
    let outside = match shared.outward.secure(outside, secure.name()).await {
        Ok(outside) => outside,
        Err(cause) => {
            shared.refusals.note(Attempt::Tls(secure.to_string()), Why::Failed(cause.to_string()));
            return Stream::Tcp(stream).reset();
        }
    };
    // A connection that breaks is not one that was stopped.
    if let Err(NotInjected::Refused(why)) = inject::carry(stream, outside, credential, first).await {
        shared.refusals.note(tcp(target), Why::Content(why.to_string()));
    }
}

pub(crate) async fn finish(
    shared: &Shared,
    (inside, outside): (&Stream, &Stream),
    target: &HostTarget,
    first: &[u8],
    ticket: &Ticket,
) {
    // An address has no name that could be compared.
    let gate = target.address().is_none().then(|| Gate::new(target.name(), target.port()));
    if let relay::Ended::Refused(why) = relay(inside, outside, gate, first, ticket.cut()).await {
        shared.refusals.note(tcp(target), Why::Content(why.to_string()));
    }
}

async fn to_host_port(shared: &Rc<Shared>, stream: TcpStream, port: u16) {
    // Whoever listens there most likely does so at the kind of address that was dialled.
    let mut loopbacks = BOTH_LOOPBACKS.to_vec();
    let dialled = stream.local_addr().map(|address| address.ip().to_canonical());
    loopbacks.sort_by_key(|ip| dialled.as_ref().is_ok_and(|dialled| dialled.is_ipv4() != ip.is_ipv4()));
    let inside = Stream::Tcp(stream);
    if !shared.rules.borrow().host_ports.contains(&port) {
        return inside.reset();
    }
    let ticket = shared.open.enter(Meant::HostPort(port));
    match ticket.unless_cut(dial::in_order(loopbacks, port, shared.share())).await {
        Some(Ok(outside)) => {
            shared.reached.note(format!("localhost:{port}"));
            let _ = outside.set_nodelay(true);
            relay(&inside, &Stream::Tcp(outside), None, &[], ticket.cut()).await;
        }
        Some(Err(cause)) => {
            shared.refusals.note(Attempt::HostPort(port), Why::Failed(cause.to_string()));
            inside.reset();
        }
        None => inside.reset(),
    }
}

/// A program that asked us as its proxy.
async fn asked(shared: &Rc<Shared>, mut stream: TcpStream) {
    let read = timeout(Duration::from_secs(30), Asked::read(&mut stream)).await;
    let mut asked = match read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(asked) => asked,
        // Somebody only looked whether there is a proxy.
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return,
        Err(cause) => return shared.refusals.note(Attempt::Proxy(None), Why::Failed(cause.to_string())),
    };
    // A program that resolved the name itself means the host that the address stands for.
    let address = asked.name.parse::<IpAddr>().ok();
    let name = address.and_then(|address| shared.state.borrow().pool.name_of(address).map(str::to_owned));
    asked.name = name.unwrap_or(asked.name);
    let target = HostTarget::new(&asked.name, asked.port).ok().filter(|target| shared.admits(target));
    let Some(target) = target else {
        let to = format!("{}:{}", asked.name, asked.port);
        shared.refusals.note(Attempt::Proxy(Some(to)), Why::NotNamed);
        // Whoever does not read the answer learns it from the end.
        let _ = stream.write_all(&asked.refusal()).await;
        return;
    };
    let ticket = shared.open.enter(Meant::Host(target.clone()));
    if let Some(credential) = shared.injects(&target) {
        let work = async {
            if stream.write_all(&asked.success()).await.is_ok() {
                inject(shared, stream, &target, &credential, &asked.rest()).await;
            }
        };
        return ticket.unless_cut(work).await.unwrap_or_default();
    }
    let outside = match ticket.unless_cut(reach(shared, &target)).await {
        Some(Ok(outside)) => outside,
        Some(Err(_)) => return drop(stream.write_all(&asked.unreachable()).await),
        None => return Stream::Tcp(stream).reset(),
    };
    if stream.write_all(&asked.success()).await.is_ok() {
        let (inside, first) = (Stream::Tcp(stream), asked.rest());
        finish(shared, (&inside, &outside), &target, &first, &ticket).await;
    }
}
