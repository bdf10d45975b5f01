package provider

// Answer is an adapter's reading of an answer's body, before anything is concluded
// from it. The adapter knows its provider's dialect (codes, words, shapes); Classify
// knows what they mean for money.
type Answer struct {
	Object *Object // nil when none could be read; on an undecodable body at most an id, as a hint
	// Malformed: the body is not JSON at all (empty, HTML, cut short). The provider or
	// something in front of it misbehaves.
	Malformed bool
	// DecodeErr: JSON, but not of the documented shape. Our decoder may be at fault.
	DecodeErr error
	Code      string // the provider's error code, for the record
	Message   string // the provider's words for people; hostile text

	Declined  bool // the code is on the adapter's list of declines
	KeyInUse  bool // by status and code: the first call with this key still runs
	KeyReused bool // by status and code: this key was used with other parameters
	// AlreadyDone: the provider refuses because it has this payment already. Evidence
	// that a first one exists, never that this one failed.
	AlreadyDone bool
	// Foreign: the object carries another reference or key than the call's.
	Foreign bool
}

// LookupAnswer is an adapter's reading of a lookup's body.
type LookupAnswer struct {
	Objects   []Object // only those that are about the question
	Malformed bool
	DecodeErr error
	// Ignored: there were objects, and none of them was about the question, so the
	// provider ignored the filter and its silence proves nothing.
	Ignored bool
	// More: further pages exist, so an empty page is no proof of absence.
	More bool
}

// LookupReading is what one lookup request established.
type LookupReading struct {
	Verdict LookupVerdict
	Health  Verdict
	Reason  string
	Alert   string
}
