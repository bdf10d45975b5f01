package views

import "strings"

// splitKeys parts "g p" into the keys pressed in turn.
func splitKeys(keys string) []string { return strings.Fields(keys) }
