// Package migrations holds the numbered SQL files of Fusebox's own schema,
// embedded so that one binary can migrate any database it is pointed at.
// River's tables are migrated by River itself (see cmd/fusebox/migrate.go).
package migrations

import "embed"

// FS contains the goose migration files, in the root of the file system.
//
//go:embed *.sql
var FS embed.FS
