//! A program inside, a host outside, and what each of them gets to see.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{DuplexStream, duplex};
use tokio_rustls::TlsAcceptor;

use super::*;

const SECRET: &str = "sk-real-secret";

fn credential() -> Credential {
    Credential::new("api.example.com", "x-api-key", SECRET.into()).unwrap()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}

async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// What the host got of what the program said, what the program got of the host's answer, and how it ended.
fn carried(said: &str) -> (String, String, Result<(), String>) {
    run(async {
        let (mut program, inside) = duplex(1 << 20);
        let (outside, mut host) = duplex(1 << 20);
        program.write_all(said.as_bytes()).await.unwrap();
        host.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await.unwrap();
        program.shutdown().await.unwrap();
        let credential = credential();
        let relay = async {
            let ended = carry(inside, outside, &credential, &[]).await;
            ended.map_err(|why| why.to_string())
        };
        let heard = async {
            let mut heard = Vec::new();
            let mut buffer = [0; 4096];
            // The host closes when nothing more comes. Nobody here waits for the time or for another thread, so what does not come in
            // many turns does not come at all.
            loop {
                tokio::select! {
                    biased;
                    read = host.read(&mut buffer) => match read {
                        Ok(count @ 1..) => heard.extend(&buffer[..count]),
                        _ => break,
                    },
                    () = turns(1_000) => break,
                }
            }
            drop(host);
            heard
        };
        let (ended, heard) = tokio::join!(relay, heard);
        let mut got = Vec::new();
        let _ = program.read_to_end(&mut got).await;
        (String::from_utf8(heard).unwrap(), String::from_utf8(got).unwrap(), ended)
    })
}

#[track_caller]
fn refused(said: &str, why: &str) {
    let (heard, got, ended) = carried(said);
    assert!(!heard.contains(SECRET) && !got.contains(SECRET), "{heard}{got}");
    assert_eq!(ended, Err(why.to_owned()), "{said}");
}

#[test]
fn each_request_has_the_credential_and_no_placeholder() {
    let (heard, got, ended) = carried(
        "POST /v1 HTTP/1.1\r\nHost: api.example.com:80\r\nX-Api-Key: placeholder\r\nContent-Length: 3\r\n\r\nabc\
         GET /next HTTP/1.1\r\nhost: API.example.com\r\n\r\n",
    );
    assert_eq!(
        heard,
        "POST /v1 HTTP/1.1\r\nContent-Length: 3\r\nHost: api.example.com\r\nx-api-key: sk-real-secret\r\n\r\nabc\
         GET /next HTTP/1.1\r\nHost: api.example.com\r\nx-api-key: sk-real-secret\r\n\r\n"
    );
    assert!(got.ends_with("ok"), "{got}");
    assert_eq!(ended, Ok(()));
}

#[test]
fn chunks_pass_and_offers_of_other_protocols_do_not() {
    let (heard, _, _) = carried(
        "POST / HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    assert_eq!(
        heard,
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: api.example.com\r\nx-api-key: sk-real-secret\r\n\r\n\
         3\r\nabc\r\n0\r\n\r\n"
    );
}

/// A redirect or a trick leads to a request for another host: it does not get the credential.
#[test]
fn no_other_host_gets_it() {
    refused("GET / HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", "a request for another host");
    refused("GET / HTTP/1.1\r\nHost: api.example.com:8080\r\n\r\n", "a request for another host");
    refused("GET / HTTP/1.1\r\nHost: api.example.com.evil.com\r\n\r\n", "a request for another host");
    refused("GET http://evil.example.com/ HTTP/1.1\r\nHost: evil.example.com\r\n\r\n", "a request for another host");
    refused("GET / HTTP/1.0\r\n\r\n", "a request that names no host");
    refused(
        "CONNECT api.example.com:80 HTTP/1.1\r\nHost: api.example.com:80\r\n\r\n",
        "a tunnel, to which no credential can be added",
    );
    refused("TRACE / HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "a request that asks to be repeated");
    refused("\x16\x03\x01\0\0\0\0\0\0\0\0\0", "not HTTP, to which no credential can be added");
}

#[test]
fn a_second_request_for_another_host_is_stopped_too() {
    let (heard, _, ended) =
        carried("GET /1 HTTP/1.1\r\nHost: api.example.com\r\n\r\nGET /2 HTTP/1.1\r\nHost: evil.example.com\r\n\r\n");
    assert!(heard.contains("GET /1") && !heard.contains("GET /2"), "{heard}");
    assert_eq!(ended, Err("a request for another host".to_owned()));
}

#[test]
fn what_cannot_be_a_credential_is_none() {
    for (header, value) in [
        ("x-api-key", "a\r\nEvil: b"),
        ("x-api-key", ""),
        ("x-api-key", " a"),
        ("x api key", "a"),
        ("", "a"),
        ("Host", "a"),
        ("content-length", "1"),
        ("Transfer-Encoding", "chunked"),
        ("connection", "x"),
    ] {
        assert_eq!(Credential::new("api.example.com", header, value.into()), None, "{header}: {value:?}");
    }
    assert!(!format!("{:?}", credential()).contains("secret"));
}

/// A host's certificate and key for one name, and who vouches for it.
fn certificate(name: &str) -> (ServerConfig, RootCertStore) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority_certificate.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    (builder.with_no_client_auth().with_single_cert(vec![leaf.der().clone()], key).unwrap(), roots)
}

/// Who arrives at a host that says it is `name`, where `api.example.com` was meant; `roots` are those of that host or others.
fn handshake(name: &str, roots: Option<RootCertStore>) -> io::Result<()> {
    run(async {
        let (server, own) = certificate(name);
        let outward = Outward::trusting(roots.unwrap_or(own)).unwrap();
        let (outside, host): (DuplexStream, DuplexStream) = duplex(1 << 20);
        let accepting = tokio::spawn(TlsAcceptor::from(Arc::new(server)).accept(host));
        let made = outward.secure(outside, "api.example.com").await;
        let alpn = made.as_ref().ok().map(|stream| stream.get_ref().1.is_handshaking());
        assert!(alpn.is_none_or(|is_handshaking| !is_handshaking));
        drop(accepting.await);
        made.map(drop)
    })
}

#[test]
fn only_the_host_itself_is_spoken_to() {
    handshake("api.example.com", None).unwrap();
    assert!(handshake("evil.example.com", None).is_err());
    let (_, others) = certificate("api.example.com");
    assert!(handshake("api.example.com", Some(others)).is_err());
    assert!(handshake("api.example.com", Some(RootCertStore::empty())).is_err());
}
