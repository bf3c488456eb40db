//! One golden table for every surface.

use super::*;

const PROXY: &str = "10.0.0.1";

fn client(source: SourceHeader) -> ClientIp {
    ClientIp::new(source, &[network("10.0.0.0/8").unwrap(), network("2001:db8:ffff::/48").unwrap()])
}

fn resolve(source: SourceHeader, peer: &str, lines: &[(&'static str, &str)]) -> (String, bool) {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    let resolved = client(source).resolve(peer.parse().unwrap(), &headers);
    (resolved.ip.to_string(), resolved.malformed)
}

/// BB-26: what a client writes itself never decides; garbage stops the walk at the last good hop.
#[test]
fn bb_26_only_what_trusted_hops_wrote_counts() {
    let table: &[(&[&str], &str, bool)] = &[
        (&[], PROXY, false),
        (&["192.0.2.9"], "192.0.2.9", false),
        (&["203.0.113.66, 192.0.2.9"], "192.0.2.9", false),
        (&["203.0.113.66,192.0.2.9,10.0.0.2"], "192.0.2.9", false),
        (&["203.0.113.66", "192.0.2.9"], "192.0.2.9", false),
        (&["192.0.2.9", "10.0.0.2, 10.0.0.3"], "192.0.2.9", false),
        (&["10.0.0.5, 10.0.0.6"], "10.0.0.5", false),
        (&["203.0.113.66, garbage"], PROXY, true),
        (&["203.0.113.66, garbage, 10.0.0.7"], "10.0.0.7", true),
        (&["203.0.113.66, "], PROXY, true),
        (&[""], PROXY, true),
        (&["203.0.113.66, \u{fffd}"], PROXY, true),
        (&["garbage, 192.0.2.9"], "192.0.2.9", false),
        (&["192.0.2.9, 2001:db8:ffff::1"], "192.0.2.9", false),
        (&["192.0.2.9, ::ffff:10.0.0.2"], "192.0.2.9", false),
    ];
    for (lines, ip, malformed) in table {
        let lines: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
        assert_eq!(resolve(SourceHeader::XForwardedFor, PROXY, &lines), ((*ip).to_owned(), *malformed), "{lines:?}");
    }
}

#[test]
fn bb_26_an_untrusted_peer_is_the_client() {
    let lines = [("x-forwarded-for", "203.0.113.66"), ("forwarded", "for=203.0.113.66"), ("x-real-ip", "203.0.113.66")];
    for source in [SourceHeader::None, SourceHeader::XForwardedFor, SourceHeader::XRealIp, SourceHeader::Forwarded] {
        assert_eq!(resolve(source, "192.0.2.9", &lines), ("192.0.2.9".to_owned(), false));
        assert_eq!(resolve(source, "::ffff:192.0.2.9", &lines), ("192.0.2.9".to_owned(), false));
    }
    assert_eq!(resolve(SourceHeader::None, PROXY, &lines), (PROXY.to_owned(), false));
    let nobody = ClientIp::new(SourceHeader::XForwardedFor, &[]);
    assert!(!nobody.trusts("127.0.0.1".parse().unwrap()));
}

#[test]
fn bb_26_the_other_headers_are_ignored() {
    let lines =
        [("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.2"), ("x-real-ip", "192.0.2.3"), ("x_forwarded_for", "192.0.2.4")];
    for (source, ip) in
        [(SourceHeader::XForwardedFor, "192.0.2.1"), (SourceHeader::Forwarded, "192.0.2.2"), (SourceHeader::XRealIp, "192.0.2.3")]
    {
        assert_eq!(resolve(source, PROXY, &lines), (ip.to_owned(), false));
    }
}

#[test]
fn bb_26_x_real_ip_is_one_address() {
    let of = |lines: &[&str]| resolve(SourceHeader::XRealIp, PROXY, &lines.iter().map(|line| ("x-real-ip", *line)).collect::<Vec<_>>());
    assert_eq!(of(&["192.0.2.9"]), ("192.0.2.9".to_owned(), false));
    assert_eq!(of(&["203.0.113.66", "192.0.2.9"]), (PROXY.to_owned(), true));
    assert_eq!(of(&["203.0.113.66, 192.0.2.9"]), (PROXY.to_owned(), true));
    assert_eq!(of(&[]), (PROXY.to_owned(), false));
}

#[test]
fn bb_26_forwarded_is_read_from_the_right() {
    let table: &[(&[&str], &str, bool)] = &[
        (&["for=192.0.2.43;proto=http;by=203.0.113.43"], "192.0.2.43", false),
        (&["for=203.0.113.66, For=192.0.2.43"], "192.0.2.43", false),
        (&["for=192.0.2.43", "for=10.0.0.2"], "192.0.2.43", false),
        (&["for=\"[2001:db8:cafe::17]:4711\""], "2001:db8:cafe::17", false),
        (&["proto=https;for=\"192.0.2.43:80\""], "192.0.2.43", false),
        (&["for=203.0.113.66, for=unknown"], PROXY, true),
        (&["for=203.0.113.66, for=_hidden"], PROXY, true),
        (&["for=203.0.113.66, proto=https"], PROXY, true),
        (&["for=192.0.2.1;for=192.0.2.2"], PROXY, true),
        // The client left a quote open: nothing it wrote may be taken for a hop.
        (&["for=203.0.113.66, for=\", for=192.0.2.43"], PROXY, true),
        (&["for=203.0.113.66, for=\"x\\\", for=192.0.2.43;proto=\"https\""], PROXY, true),
        (&["for=\"a,b\", for=192.0.2.43"], "192.0.2.43", false),
    ];
    for (lines, ip, malformed) in table {
        let lines: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
        assert_eq!(resolve(SourceHeader::Forwarded, PROXY, &lines), ((*ip).to_owned(), *malformed), "{lines:?}");
    }
}

/// BB-27: a port, brackets, quotes or a zone do not make another client.
#[test]
fn bb_27_every_spelling_of_an_address_is_one_client() {
    for text in [
        "198.51.100.7",
        "198.51.100.7:50001",
        "198.51.100.7:50012",
        " 198.51.100.7 ",
        "\"198.51.100.7:1\"",
        "::ffff:198.51.100.7",
        "::ffff:c633:6407",
        "[::ffff:198.51.100.7]:9",
    ] {
        assert_eq!(resolve(SourceHeader::XForwardedFor, PROXY, &[("x-forwarded-for", text)]), ("198.51.100.7".to_owned(), false), "{text}");
    }
    for text in [
        "2001:db8::1",
        "[2001:db8::1]",
        "[2001:db8::1]:443",
        "\"[2001:db8::1]:443\"",
        "2001:DB8:0::1",
        "2001:db8::1%eth0",
        "[2001:db8::1%25eth0]:443",
    ] {
        assert_eq!(resolve(SourceHeader::XForwardedFor, PROXY, &[("x-forwarded-for", text)]), ("2001:db8::1".to_owned(), false), "{text}");
    }
    for text in [
        "198.051.100.7",
        "198.51.100",
        "198.51.100.7:",
        "198.51.100.7:99999",
        "198.51.100.7:+1",
        "[2001:db8::1",
        "[2001:db8::1]443",
        "0x7f.1",
        "198.51.100.7%1",
        "\"198.51.100.7",
        "localhost",
    ] {
        assert_eq!(resolve(SourceHeader::XForwardedFor, PROXY, &[("x-forwarded-for", text)]), (PROXY.to_owned(), true), "{text}");
    }
}

#[test]
fn networks_are_read_or_refused() {
    for (text, net) in
        [("10.1.2.3/8", "10.0.0.0/8"), ("127.0.0.1", "127.0.0.1/32"), ("::1", "::1/128"), ("::ffff:10.0.0.0/104", "10.0.0.0/8")]
    {
        assert_eq!(network(text).map(|net| net.to_string()).as_deref(), Ok(net));
    }
    for bad in ["", "10.0.0.0/33", "10.0.0/8", "010.0.0.0/8", "host", "10.0.0.0/8 "] {
        assert_eq!(network(bad), Err(NetworkError), "{bad}");
    }
}
