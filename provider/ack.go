package provider

// Acknowledger is an Adapter whose provider wants to read certain words in the answer to
// a delivery that was stored. Others go by the status.
type Acknowledger interface {
	// Acknowledgement returns the body of the 200, as plain text.
	Acknowledgement() string
}

// Acknowledgement returns what the provider wants to read, if anything.
func Acknowledgement(a Adapter) (text string, ok bool) {
	k, ok := a.(Acknowledger)
	if !ok {
		return "", false
	}
	return k.Acknowledgement(), true
}
