package messages

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forms are the plural forms a countable text needs in each language. "other" is
// what go-i18n falls back to, so it is always needed.
var forms = map[Lang][]string{
	English: {"one", "other"}, French: {"one", "other"}, Spanish: {"one", "other"}, Ukrainian: {"one", "few", "many", "other"},
}

// texts reads every text of a language: id → plural form → text ("" for plain ones).
func texts(t *testing.T, l Lang) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	names, err := fs.Glob(files, "*."+string(l)+".json")
	require.NoError(t, err)
	for _, name := range names {
		body, err := fs.ReadFile(files, name)
		require.NoError(t, err)
		var raw map[string]any
		require.NoError(t, json.Unmarshal(body, &raw), name)
		for id, v := range raw {
			require.NotContains(t, all, id, "%s repeats an id of another file", name)
			all[id] = map[string]string{}
			switch v := v.(type) {
			case string:
				all[id][""] = v
			case map[string]any:
				for form, text := range v {
					all[id][form], _ = text.(string)
				}
			}
		}
	}
	return all
}

var placeholder = regexp.MustCompile(`{{\.(\w+)}}`)

// placeholders are the names of a text's placeholders, in all its forms together.
func placeholders(byForm map[string]string) []string {
	seen := map[string]bool{}
	for _, text := range byForm {
		for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
			seen[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func TestEveryLanguageHasEveryText(t *testing.T) {
	t.Parallel()
	english := texts(t, English)
	require.NotEmpty(t, english)
	for _, l := range Langs {
		other := texts(t, l)
		for id, want := range english {
			got, ok := other[id]
			if !ok {
				t.Errorf("%s lacks %s", l, id)
				continue
			}
			_, plain := want[""]
			_, gotPlain := got[""]
			if plain != gotPlain {
				t.Errorf("%s: %s is countable in one language and plain in the other", l, id)
			}
			if !plain {
				for _, form := range forms[l] {
					if got[form] == "" {
						t.Errorf("%s: %s lacks the plural form %q", l, id, form)
					}
				}
			}
			if w, g := placeholders(want), placeholders(got); !slices.Equal(w, g) {
				t.Errorf("%s: %s has placeholders %v, English has %v", l, id, g, w)
			}
			for form, text := range got {
				if strings.TrimSpace(text) == "" {
					t.Errorf("%s: %s %s is empty", l, id, form)
				}
			}
		}
		for id := range other {
			if _, ok := english[id]; !ok {
				t.Errorf("%s has %s, English has not", l, id)
			}
		}
	}
}

var (
	quoted = regexp.MustCompile(`"([a-z][a-z0-9_-]*(?:\.[a-zA-Z0-9_-]+)*\.?)"`)
	call   = regexp.MustCompile(`\b(?:views\.|messages\.)?(T|N)\(ctx, "([^"]+)"([^\n]*)`)
	argKey = regexp.MustCompile(`, "([A-Z]\w*)", `)
)

// sources are the files that may use a text.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range []string{"..", "../../web"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_templ.go") {
				return err
			}
			if strings.HasSuffix(path, ".go") || strings.HasSuffix(path, ".templ") {
				body, err := os.ReadFile(path)
				found[path] = string(body)
				return err
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.NotEmpty(t, found)
	return found
}

func TestEveryTextIsUsedAndEveryUseHasAText(t *testing.T) {
	t.Parallel()
	english := texts(t, English)
	literals, prefixes := map[string]bool{}, map[string]bool{}
	for path, body := range sources(t) {
		for _, m := range quoted.FindAllStringSubmatch(body, -1) {
			literals[m[1]] = true
			if strings.HasSuffix(m[1], ".") {
				prefixes[m[1]] = true
			}
		}
		for _, m := range call.FindAllStringSubmatch(body, -1) {
			checkUse(t, english, path, m[1] == "N", m[2], m[3])
		}
	}
	for id := range english {
		if !literals[id] && !hasPrefix(prefixes, id) {
			t.Errorf("%s is used nowhere", id)
		}
	}
}

func hasPrefix(prefixes map[string]bool, id string) bool {
	for p := range prefixes {
		if strings.HasPrefix(id, p) {
			return true
		}
	}
	return false
}

// checkUse checks one call of T or N with a literal id: the text exists, is countable
// if and only if it is counted, and gets no placeholder it does not have.
func checkUse(t *testing.T, english map[string]map[string]string, path string, counted bool, id, rest string) {
	t.Helper()
	text, ok := english[id]
	if !ok {
		if !strings.HasSuffix(id, ".") { // "prefix."+value is looked up at run time
			t.Errorf("%s uses %s, which has no text", path, id)
		}
		return
	}
	if _, plain := text[""]; plain == counted {
		t.Errorf("%s: %s is counted in one place and plain in the other", path, id)
	}
	names := placeholders(text)
	if end := strings.Index(rest, ")"); end >= 0 && !strings.Contains(rest[:end], "(") {
		for _, m := range argKey.FindAllStringSubmatch(rest[:end]+", ", -1) {
			if !slices.Contains(names, m[1]) {
				t.Errorf("%s gives %s a value for %s, which it does not say", path, id, m[1])
			}
		}
	}
}

func in(l Lang) context.Context { return With(context.Background(), Locale{Lang: l}) }

func TestTextsInEachLanguage(t *testing.T) {
	t.Parallel()
	for l, want := range map[Lang]string{English: "Unknown", French: "Inconnu", Spanish: "Desconocido", Ukrainian: "Невідомо"} {
		require.Equal(t, want, T(in(l), "status.unknown"))
	}
	require.Equal(t, "no.such.text", T(in(English), "no.such.text"))
	require.Equal(t, "brand new reason", Opt(in(French), "reason.", "brand_new_reason"))
}

func TestUkrainianCountsInItsThreeForms(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		1: "1 платіж із черги", 3: "3 платежі з черги", 5: "5 платежів із черги", 11: "11 платежів із черги",
		21: "21 платіж із черги", 22: "22 платежі з черги",
	} {
		require.Contains(t, N(in(Ukrainian), "reset.queued", n, "Provider", "atlas"), want)
	}
}

func TestNegotiatePrefersThePersonThenTheBrowser(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, accept string
		wishes       []string
		want         Lang
	}{
		{"setting wins", "fr", []string{"uk", "es"}, Ukrainian},
		{"unknown setting is passed over", "fr", []string{"de", "es"}, Spanish},
		{"browser", "de-DE, fr-CA;q=0.8, en;q=0.5", nil, French},
		{"regional", "uk-UA", []string{""}, Ukrainian},
		{"nothing we speak", "ja, zh;q=0.9", nil, English},
		{"broken header", ";;;q=", nil, English},
		{"no header", "", nil, English},
	} {
		require.Equal(t, c.want, Negotiate(c.accept, c.wishes...), c.name)
	}
}

func TestAnUnknownLanguageIsEnglish(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Unknown", T(With(context.Background(), Locale{Lang: "xx"}), "status.unknown"))
	require.Equal(t, "Unknown", T(context.Background(), "status.unknown"))
}
