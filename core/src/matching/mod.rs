//! Which rules a request matches: paths, hosts, headers, descriptors, precedence.
