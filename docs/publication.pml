/* Publication, as src/state does it: the index is one pointer to an immutable record; readers pin without a lock; batches
   publish or drop under the publication lock; a record is reused when it is not current and nobody has it pinned.

     tools/check_model.sh     checks this file exhaustively, and that each of its variants below is found wrong

   What the model keeps of the program, with the names of src/state/store_impl.h:

     records           RECORDS of them, with pins, use and what they say about each slot       Record, reserve_record, reclaim
     banks             reference counts and content; a bank that nobody holds is poisoned      Pools
     a batch           begin: record and bank reserved; stages: private bank written from the  begin, publish, drop
                       public one; then publish or drop. One batch per slot, both in flight
     reset             a publication without a batch: back to the origin                       publish_change
     a reader          A1 load, A2 pin, A3 load again, A4 read every field and bank, A5 unpin  pin, View

   One step of a process is one access to what another process may touch at the same time. What the lock protects and no
   reader touches moves in one step. Steps interleave in every possible way (sequential consistency); why the memory orders
   of the C++ code give no more behaviours than that is argued in store_impl.h and tested under the thread sanitizer.
   Left out, because it is single-threaded once a batch owns its slot: page tables, copy-on-write, fork, generations
   (src/state/store_model_test.cc).

   Variants, each of which must violate an assertion:

     NO_LOCK      a batch publishes without the lock            a publication is lost
     NO_PIN       readers read without pinning                  a record is rewritten under a reader
     NO_RECHECK   readers do not look again after pinning       the same
     NO_RESERVE   the record is taken at publish, not at begin  a publication finds no record and would have to fail */

#define SLOTS 2
#ifndef READERS
#define READERS 2
#endif
#ifndef RECORDS
#define RECORDS 4   /* current, one for each batch, one for views */
#endif
#ifndef ROUNDS
#define ROUNDS 2    /* batches or resets of each slot */
#endif
#ifndef VIEWS
#define VIEWS 2     /* of each reader */
#endif
#define BANKS 6     /* origin, two public, two private, one for views */
#define ORIGIN 0
#define POISON 255
#define NONE 255

mtype = { unused, reserved, published };

typedef Record {
  byte pins;
  mtype use = unused;
  byte sequence;
  byte stamp[SLOTS];   /* the sequence number of whoever wrote the entry */
  byte image[SLOTS];   /* the entry: number of the slot's image, 0 for the origin; stands for the frontier */
  byte bank[SLOTS]     /* and where it lies */
};

Record record[RECORDS];
byte current;
bool locked;
byte refs[BANKS];
byte content[BANKS];

/* What the program does not have: the truth that it is held against. */
byte shown[SLOTS];         /* the image that the last finished publication of the slot made public */
byte reading[RECORDS];     /* readers between A3 and A5 */
byte finished;

#define content_of(slot, number) ((number) == 0 -> 0 : 16 * ((slot) + 1) + (number))

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

inline drop_bank(which) {
  assert(refs[which] > 0);
  refs[which]--;
  if
  :: refs[which] == 0 -> content[which] = POISON
  :: else
  fi
}

/* ---- under the lock */

inline reclaim() {
  do
  :: d_step {   /* to the next record that only pins can hold */
       do
       :: r < RECORDS && (record[r].use != published || r == current) -> r++
       :: else -> break
       od
     }
     if
     :: r == RECORDS -> break
     :: r < RECORDS ->
        d_step {
          if
          :: record[r].pins == 0 ->   /* B2 */
             drop_bank(record[r].bank[0]);
             drop_bank(record[r].bank[1]);
             record[r].use = unused
          :: else
          fi;
          r++
        }
     fi
  od;
  r = 0
}

inline reserve_record(to) {
  d_step {
    to = 0;
    do
    :: to == RECORDS -> to = NONE; break
    :: to < RECORDS && record[to].use == unused -> record[to].use = reserved; break
    :: else -> to++
    od
  }
}

inline take_bank(to) {
  to = 0;
  do
  :: to == BANKS -> to = NONE; break
  :: to < BANKS && refs[to] == 0 -> refs[to] = 1; break
  :: else -> to++
  od
}

/* Field by field: a reader that should not be here would see the halves. */
inline copy_current(next) {
  from = current;
  assert(reading[next] == 0);
  record[next].sequence = record[from].sequence + 1;
  s = 0;
  do
  :: s == SLOTS -> break
  :: s < SLOTS ->
     record[next].image[s] = record[from].image[s];
     d_step {
       record[next].bank[s] = record[from].bank[s];
       record[next].stamp[s] = record[next].sequence;
       refs[record[next].bank[s]]++
     }
     s++
  od;
  s = 0
}

/* The entry of slot `me` becomes image `number` in bank `which`, whose reference passes over. */
inline set_entry(next, number, which) {
  record[next].image[me] = number;
  d_step {
    drop_bank(record[next].bank[me]);
    record[next].bank[me] = which
  }
}

/* B1, the one store. With it the truth moves on: this slot shows `number`, the others what they showed. */
inline install(next, number) {
  assert(reading[next] == 0);
  d_step {
    record[next].use = published;
    current = next;
    shown[me] = number;
    assert(record[next].image[0] == shown[0] && record[next].image[1] == shown[1]);
    from = 0
  }
}

/* ---- the sequence of one slot and whoever appends to it */

inline begin() {
  lock();
  reclaim();
#ifdef NO_RESERVE
  next = RECORDS;
#else
  reserve_record(next);
#endif
  d_step {
    if
    :: next != NONE ->
       take_bank(bank);
       if
       :: bank == NONE && next < RECORDS -> record[next].use = unused   /* no bank: refused, nothing happened */
       :: else
       fi
    :: else -> bank = NONE                                              /* no record: the same */
    fi
  }
  unlock()
}

/* The public bank is read and the private one written, without the lock. */
inline stages() {
  d_step {
    made++;
    assert(refs[bank] == 1);
    assert(record[current].image[me] == shown[me]);
    assert(content[record[current].bank[me]] == content_of(me, shown[me]))
  }
  content[bank] = content_of(me, made)
}

inline publish() {
#ifndef NO_LOCK
  lock();
#endif
#ifdef NO_RESERVE
  reclaim();
  reserve_record(next);
  assert(next != NONE);   /* publish() cannot fail */
#endif
  copy_current(next);
  set_entry(next, made, bank);
  install(next, made);
#ifndef NO_LOCK
  reclaim();
  unlock()
#endif
}

inline drop() {
  lock();
  d_step {
    drop_bank(bank);
    if
    :: next < RECORDS -> record[next].use = unused
    :: else
    fi;
    assert(record[current].image[me] == shown[me]);   /* a cancelled batch changes nothing */
    assert(content[record[current].bank[me]] == content_of(me, shown[me]))
  }
  unlock()
}

inline reset() {
  lock();
  reclaim();
  reserve_record(next);
  if
  :: next != NONE ->
     copy_current(next);
     refs[ORIGIN]++;
     set_entry(next, 0, ORIGIN);
     install(next, 0);
     reclaim()
  :: else
  fi;
  unlock()
}

proctype Sequence(byte me) {
  byte round, made, next, bank, from, r, s;
  do
  :: round == ROUNDS -> break
  :: round < ROUNDS ->
     if
     :: begin();
        if
        :: bank != NONE ->
           stages();
           if
           :: publish()
           :: drop()
           fi
        :: else
        fi
     :: reset()
     fi;
     d_step { next = 0; bank = 0; round++ }
  od;
  finished++
}

proctype Reader() {
  byte view, mine, seen, newest, image, bank, s;
  do
  :: view == VIEWS -> break
  :: view < VIEWS ->
     mine = current;                       /* A1 */
#ifndef NO_PIN
again:
     record[mine].pins++;                  /* A2 */
#ifndef NO_RECHECK
     if                                    /* A3 */
     :: d_step { mine == current -> reading[mine]++ }
     :: atomic { mine != current -> skip }
        assert(record[mine].pins > 0);
        record[mine].pins--;
        mine = current;
        goto again
     fi;
#else
     reading[mine]++;
#endif
#endif
     seen = record[mine].sequence;         /* A4 */
     assert(seen >= newest);
     do
     :: s == SLOTS -> break
     :: s < SLOTS ->
        image = record[mine].image[s];
        d_step {
          bank = record[mine].bank[s];
          assert(record[mine].stamp[s] == seen)
        }
        assert(content[bank] == content_of(s, image));
        d_step { image = 0; bank = 0; s++ }
     od;
     s = 0;
#ifndef NO_PIN
     d_step {
       assert(record[mine].sequence == seen);
       reading[mine]--
     }
     record[mine].pins--;                  /* A5 */
#endif
     d_step { newest = seen; seen = 0; mine = 0; view++ }
  od;
  finished++
}

/* Both slots empty, on the origin. When all have come to their end: every publication survived, and everything that is not
   public is free. */
init {
  atomic {
    record[0].use = published;
    refs[ORIGIN] = 3;
    run Sequence(0);
    run Sequence(1);
    run Reader();
#if READERS > 1
    run Reader()
#endif
  }
  finished == SLOTS + READERS;
  d_step {
    assert(record[current].image[0] == shown[0] && record[current].image[1] == shown[1]);
    assert(content[record[current].bank[0]] == content_of(0, shown[0]));
    assert(content[record[current].bank[1]] == content_of(1, shown[1]));
    assert(reading[current] == 0 && record[current].pins == 0)
  }
}
