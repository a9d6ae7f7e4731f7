#!/usr/bin/env python3
"""The NumPy implementation against the reference library's values and against hand-computed rows of the n-gram table.

If this fails, variants_test.py proves nothing.
"""
import os
import unittest

import numpy as np

from reference import checkpoint, qwen4exp, random_checkpoint

MICRO = os.path.join(os.environ["EVROS_BINARY_DIR"], "micro")
TOLERANCE = 1e-4  # the reference library forms angles in float32 and sums in float32

# docs/model.md, section 1.4: rows of the published table, eos 248044. History oldest first -> rows 0..15 of its last token.
PUBLISHED = {
    (9707,): "16410909 39682429 55103279 60931720 87006904 116506179 131512017 152932897 169641436 182022480 209277433 237891023 "
             "256841529 277007269 290665954 300984276",
    (1, 2, 3): "14605717 24410875 49313567 72177428 86060820 104022010 130963819 146886202 161523077 195939126 219424565 "
               "220811782 248020141 275228530 284297999 309645223",
    (7, 248044, 5): "15389869 39778609 55713969 62213332 88817728 118483999 133731511 155458159 179763390 197956758 205378969 "
                    "220499474 242466248 265658744 293662119 315720898",
    (1, 2, 248044): "2993698 22555595 46746235 65551934 83400007 116956842 138173940 148109607 165238550 195531093 219556029 "
                    "234233279 250491792 267808615 280482789 305617187",
    (248044, 7, 5): "18991213 39727615 50096016 68612008 93054523 101202072 123423469 159718776 177092424 195482906 205422805 "
                    "236037562 249008105 262338198 293528343 310077201",
}
PUBLISHED_CONFIG = {"vocab_size": 248320, "ngram_size": 3, "heads_per_ngram": 8, "ngram_vocab_size_base": 20000000}


class Reference(unittest.TestCase):
    def test_every_value_of_the_reference_library(self):
        golden = checkpoint.read_file(os.path.join(MICRO, "golden.safetensors"))
        model = qwen4exp.Model(*checkpoint.read_folder(os.path.join(MICRO, "hf")))
        for sequence in "abc":
            trace, _ = model.run(golden[sequence + ".tokens"], sequence)
            names = {name for name in golden if name.startswith(sequence + ".")}
            self.assertEqual(names, set(trace))
            for name in names:
                ours, theirs = trace[name], golden[name]
                self.assertEqual(ours.shape, theirs.shape, name)
                if theirs.dtype.kind == "f":
                    self.assertLessEqual(np.abs(ours - theirs).max(), TOLERANCE, name)
                else:
                    self.assertTrue(np.array_equal(ours, theirs), name)

    def test_table_rows_of_the_published_constants(self):
        multipliers, primes, offsets = random_checkpoint.ple_constants(PUBLISHED_CONFIG, 0)
        self.assertEqual(multipliers, [23703573157769, 20109073645365, 8052911324071])
        self.assertEqual((primes[0], primes[15], offsets[15]), (20000003, 20000171, 300001275))
        walker = qwen4exp.Model.__new__(qwen4exp.Model)
        walker.c, walker.eos = PUBLISHED_CONFIG, 248044
        for history, rows in PUBLISHED.items():
            ours = walker.ngram_rows(np.array(history), multipliers, primes, offsets)[-1]
            self.assertEqual(ours.tolist(), [int(row) for row in rows.split()], history)


if __name__ == "__main__":
    unittest.main()
