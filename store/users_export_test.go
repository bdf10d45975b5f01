package store

// DummyHash is dummyHash, for the tests.
const DummyHash = dummyHash
