// Package chaos runs the whole system, processes, stores and providers, on one machine
// under a seeded schedule of faults and traffic, lets it settle without faults, and
// audits the books. The processes are the real program's; between them and their
// stores, providers and clients stand proxies that cut, delay, reset and drop.
//
// The schedule (what breaks, where, when and for how long) follows from the seed and
// the length alone, so a failing seed breaks the same things at the same times again.
// Traffic and timing on the machine do not repeat.
//
// Not among the faults: a full disk. Without a file system of its own, which needs
// root, filling Postgres's disk fills the machine's.
package chaos
