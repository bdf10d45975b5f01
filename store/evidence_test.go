package store

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fusebox/provider"
)

var (
	asked = provider.Money{Amount: 1000, Currency: "EUR"}
	t0    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

// look is an observation of object id at second sec.
func look(id string, sec int, o provider.Outcome, m provider.Money) observation {
	return observation{Object: provider.Object{ID: id, Status: "word_" + string(o), Outcome: o, Money: m}, at: t0.Add(time.Duration(sec) * time.Second)}
}

func fold(obs []observation) []object {
	byID := map[string]object{}
	for _, n := range obs {
		o, ok := byID[n.ID]
		if !ok {
			o = object{id: n.ID}
		}
		byID[n.ID], _ = o.merge(n, asked)
	}
	var out []object
	for _, o := range byID {
		out = append(out, o)
	}
	return out
}

func TestJudgeTable(t *testing.T) {
	t.Parallel()
	other, none := provider.Money{Amount: 900, Currency: "EUR"}, provider.Money{}
	yen := provider.Money{Amount: 1000, Currency: "JPY"}
	for name, c := range map[string]struct {
		obs     []observation
		to      Status
		reviews []string
	}{
		"nothing seen":                  {nil, "", nil},
		"succeeded as asked":            {[]observation{look("a", 1, provider.Succeeded, asked)}, Succeeded, nil},
		"succeeded with other amount":   {[]observation{look("a", 1, provider.Succeeded, other)}, Unknown, []string{ReviewAmountMismatch}},
		"succeeded in other currency":   {[]observation{look("a", 1, provider.Succeeded, yen)}, Unknown, []string{ReviewAmountMismatch}},
		"succeeded without amount":      {[]observation{look("a", 1, provider.Succeeded, none)}, Unknown, []string{ReviewAmountMismatch}},
		"processing then other success": {[]observation{look("a", 1, provider.Processing, asked), look("a", 2, provider.Succeeded, other)}, Unknown, []string{ReviewAmountMismatch}},
		"processing without amount":     {[]observation{look("a", 1, provider.Processing, none)}, Processing, nil},
		"same object, other amount later": {[]observation{look("a", 1, provider.Succeeded, asked), look("a", 2, provider.Succeeded, other)},
			Succeeded, []string{ReviewAmountMismatch}},
		"amount corrected later": {[]observation{look("a", 1, provider.Succeeded, other), look("a", 2, provider.Succeeded, asked)}, Succeeded, nil},
		"failed":                 {[]observation{look("a", 1, provider.Failed, asked)}, Failed, nil},
		"failed, then succeeded": {[]observation{look("a", 1, provider.Failed, asked), look("a", 2, provider.Succeeded, asked)}, Succeeded, nil},
		"succeeded, then failed": {[]observation{look("a", 1, provider.Succeeded, asked), look("a", 2, provider.Failed, asked)},
			Succeeded, []string{ReviewContradiction}},
		"both in one second": {[]observation{look("a", 1, provider.Succeeded, asked), look("a", 1, provider.Failed, asked)},
			Succeeded, []string{ReviewContradiction}},
		"try 1 failed, try 2 succeeded": {[]observation{look("a", 2, provider.Failed, asked), look("b", 1, provider.Succeeded, asked)}, Succeeded, nil},
		"try 1 failed, try 2 open":      {[]observation{look("a", 2, provider.Failed, asked), look("b", 1, provider.Processing, asked)}, Processing, nil},
		"all failed":                    {[]observation{look("a", 1, provider.Failed, asked), look("b", 1, provider.Failed, asked)}, Failed, nil},
		"two succeeded": {[]observation{look("a", 1, provider.Succeeded, asked), look("b", 1, provider.Succeeded, asked)},
			Succeeded, []string{ReviewDuplicate}},
		"second one undone": {[]observation{look("a", 1, provider.Succeeded, asked), look("b", 1, provider.Succeeded, asked), look("b", 2, provider.Failed, asked)},
			Succeeded, nil},
		"one of other money beside ours": {[]observation{look("a", 1, provider.Succeeded, asked), look("b", 1, provider.Succeeded, other)},
			Succeeded, []string{ReviewAmountMismatch, ReviewDuplicate}},
		"unlisted word":            {[]observation{look("a", 1, "", asked)}, Unknown, []string{ReviewUnmapped}},
		"unlisted word after open": {[]observation{look("a", 1, provider.Processing, asked), look("a", 2, "", asked)}, Unknown, []string{ReviewUnmapped}},
		"unlisted word, then open": {[]observation{look("a", 1, "", asked), look("a", 2, provider.Processing, asked)}, Processing, nil},
		"unlisted word, then paid": {[]observation{look("a", 2, "", asked), look("a", 1, provider.Succeeded, asked)}, Succeeded, nil},
		"action, then processing":  {[]observation{look("a", 1, provider.RequiresAction, asked), look("a", 2, provider.Processing, asked)}, Processing, nil},
		"processing, then action":  {[]observation{look("a", 1, provider.Processing, asked), look("a", 2, provider.RequiresAction, asked)}, RequiresAction, nil},
		"other money, then undone": {[]observation{look("a", 1, provider.Succeeded, other), look("a", 2, provider.Failed, other)}, Failed, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 10 { // any order, any repetition
				obs := append(slices.Clone(c.obs), c.obs...)
				rand.Shuffle(len(obs), func(i, j int) { obs[i], obs[j] = obs[j], obs[i] })
				j := judge(fold(obs), "")
				slices.Sort(j.reviews)
				require.Equal(t, c.to, j.to)
				require.Equal(t, c.reviews, j.reviews)
			}
		})
	}
}

func TestJudgeKeepsTheObjectAPaymentRestsOn(t *testing.T) {
	t.Parallel()
	objects := fold([]observation{look("a", 1, provider.Succeeded, asked), look("b", 2, provider.Succeeded, asked)})
	require.Equal(t, "b", judge(objects, "b").own)
	require.Equal(t, "a", judge(objects, "").own)
	objects = fold([]observation{look("a", 1, provider.Succeeded, asked), look("b", 2, provider.Succeeded, asked), look("a", 3, provider.Failed, asked)})
	require.Equal(t, "b", judge(objects, "a").own, "one that was undone is no longer as good as another")
}

// observations in any order and repetition merge into the same objects and the same
// judgement.
func TestMergeIsIndependentOfOrderAndRepetition(t *testing.T) {
	t.Parallel()
	money := rapid.SampledFrom([]provider.Money{asked, asked, {Amount: 900, Currency: "EUR"}, {}})
	outcome := rapid.SampledFrom([]provider.Outcome{provider.Succeeded, provider.Failed, provider.Processing, provider.RequiresAction, ""})
	one := rapid.Custom(func(rt *rapid.T) observation {
		return look(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "id"), rapid.IntRange(0, 3).Draw(rt, "sec"), outcome.Draw(rt, "outcome"), money.Draw(rt, "money"))
	})
	rapid.Check(t, func(rt *rapid.T) {
		obs := rapid.SliceOfN(one, 1, 8).Draw(rt, "observations")
		again := rapid.Permutation(append(slices.Clone(obs), obs...)).Draw(rt, "other order")
		x, y := judge(fold(obs), ""), judge(fold(again), "")
		slices.Sort(x.reviews)
		slices.Sort(y.reviews)
		require.Equal(rt, x, y)
	})
}

func TestMergeSaysWhetherAnythingIsNew(t *testing.T) {
	t.Parallel()
	o, changed := object{id: "a"}.merge(look("a", 1, provider.Processing, asked), asked)
	require.True(t, changed)
	o, changed = o.merge(look("a", 2, provider.Processing, asked), asked)
	require.False(t, changed, "the same again, later")
	o, changed = o.merge(look("a", 3, provider.Succeeded, asked), asked)
	require.True(t, changed)
	_, changed = o.merge(look("a", 1, provider.Processing, asked), asked)
	require.False(t, changed, "late news of an earlier state")
}
