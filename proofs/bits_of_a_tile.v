(* Page 20, "What a tile must tell" (notebooks/what_came_after/bits_of_a_tile.ipynb).
   Theorem 20.3, Corollary 20.6, Propositions 20.7, 20.8.
   F is any ordered field. The bounds hold for any functions exp and ln; only merge_exact and
   Proposition 20.8 use laws of theirs, which stand there as hypotheses. What a tile and the rest
   can hold, TA and TB, are finite types. Logarithms are undone: a bound H (m + 1) p >= log_2 R
   says R <= 2^(H (m + 1) p). *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import patterns_and_conditions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.

(* Drawers: if g A is known from numbers, one for each k in K, and each of them has at most 2^p
   values, then there are at most 2^(K p) different g A. *)
Lemma drawers (F : eqType) (T K U : finType) (D : {pred T}) (g : T -> U) (told : T -> K -> F) p :
  (forall k, exists s : seq F, size s <= 2 ^ p /\ forall A, told A k \in s) ->
  {in D &, forall A A', told A =1 told A' -> g A = g A'} ->
  #|[set g A | A in D]| <= 2 ^ (#|K| * p).
Proof.
move=> few apart; have /fin_all_exists[s sP] := few.
have lt A k : index (told A k) (s k) < 2 ^ p.
  by have [le inS] := sP k; apply: leq_trans le; rewrite index_mem.
pose code A := [ffun k => Ordinal (lt A k)].
have [|[A0 A0D]] := set_0Vmem [set A in D]; last first.
  pose g' c := if [pick A in D | code A == c] is Some A then g A else g A0.
  suff /subset_leq_card le : [set g A | A in D] \subset g' @: [set: {ffun K -> 'I_(2 ^ p)}].
    apply: leq_trans le (leq_trans (leq_imset_card _ _) _).
    by rewrite cardsT card_ffun card_ord [#|K| * p]mulnC expnM.
  apply/subsetP => _ /imsetP[A AD ->]; apply/imsetP; exists (code A) => //; rewrite /g'.
  case: pickP => [A' /andP[A'D /eqP /ffunP eq]|/(_ A)]; last by rewrite AD eqxx.
  apply: apart => // k; have := congr1 val (eq k); rewrite !ffunE /= => e.
  by rewrite -(nth_index (told A k) ((sP k).2 A)) -e nth_index //; apply (sP k).2.
move=> D0; rewrite (_ : [set g A | A in D] = set0) ?cards0 //; apply/setP => y; rewrite inE.
by apply/imsetP => -[A AD _]; have := in_set0 A; rewrite -D0 inE AD.
Qed.

(* (20.1), for a set S of tokens with logits l and values v *)
Section Message.
Variables (F : realFieldType) (exp ln : F -> F) (m : nat) (I : finType).
Local Open Scope ring_scope.
Definition lambda (S : {set I}) (l : I -> F) := ln (\sum_(i in S) exp (l i)).
Definition tile_mean (S : {set I}) l (v : I -> 'rV[F]_m) :=
  \sum_(i in S) exp (l i - lambda S l) *: v i.
Definition merge lamA (oA : 'rV[F]_m) lamB oB :=
  (exp lamA + exp lamB)^-1 *: (exp lamA *: oA + exp lamB *: oB).
(* Definition 20.1: the m + 1 numbers of a message, lambda and the coordinates of the mean *)
Definition number (S : {set I}) l v (c : option 'I_m) :=
  if c is Some j then tile_mean S l v 0 j else lambda S l.

Hypothesis expD : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_gt0 : forall x, 0 < exp x.
Hypothesis lnK : forall y, 0 < y -> exp (ln y) = y.
Lemma exp_lambda S l : S != set0 -> exp (lambda S l) = \sum_(i in S) exp (l i).
Proof.
case/set0Pn=> i iS; rewrite lnK // (bigD1 i) //= ltr_paddr //.
by apply: sumr_ge0 => j _; apply: ltW.
Qed.
Lemma expB x y : exp (x - y) = (exp y)^-1 * exp x.
Proof. by rewrite -{2}(subrK y x) (expD _ y) mulrC mulfK // gt_eqF. Qed.
Lemma tile_meanE S l v : S != set0 ->
  tile_mean S l v = (\sum_(i in S) exp (l i))^-1 *: \sum_(i in S) exp (l i) *: v i.
Proof.
move=> S0; rewrite scaler_sumr; apply: eq_bigr => i _.
by rewrite expB exp_lambda // scalerA.
Qed.
(* Without rounding the merge is softmax over both tiles. *)
Theorem merge_exact (A B : {set I}) l v : A != set0 -> B != set0 -> [disjoint A & B] ->
  merge (lambda A l) (tile_mean A l v) (lambda B l) (tile_mean B l v) = tile_mean (A :|: B) l v.
Proof.
move=> A0 B0 AB; have AB0 : A :|: B != set0 by rewrite setU_eq0 negb_and A0.
have split (V : zmodType) (f : I -> V) : \sum_(i in A :|: B) f i = \sum_(i in A) f i + \sum_(i in B) f i.
  by rewrite -bigU //; apply: eq_bigl => i; rewrite !inE.
have pos S : S != set0 -> \sum_(i in S) exp (l i) != 0 by move=> S0; rewrite -exp_lambda // gt_eqF.
by rewrite /merge !exp_lambda // !tile_meanE // !scalerA !mulfV ?pos // !scale1r !split.
Qed.
End Message.

(* The number of different rows of the table of f. *)
Definition rows (TA TB Out : finType) (f : TA -> TB -> Out) :=
  #|[set [ffun B => f A B] | A in TA]|.

(* One layer of H heads with values of width m. The query is one fixed token. *)
Section Tile.
Variables (F : realFieldType) (exp ln : F -> F) (H m p : nat) (TA TB Out I : finType) (S : {set I}).
(* logits and values of the tokens of the tile, the set S, are made from what stands in it, A *)
Variables (logit : TA -> 'I_H -> I -> F) (value : TA -> 'I_H -> I -> 'rV[F]_m).
(* the rule that rounds number x.2 of head x.1 may see A, but not B *)
Variable round : TA -> 'I_H * option 'I_m -> F -> F.
Definition told A x := round A x (number exp ln S (logit A x.1) (value A x.1) x.2).
(* p bits: each number takes at most 2^p values *)
Hypothesis bits : forall x, exists s : seq F, size s <= 2 ^ p /\ forall A, told A x \in s.
(* whatever B tells, and any map after the heads *)
Variables (lamB : TB -> 'I_H -> F) (oB : TB -> 'I_H -> 'rV[F]_m).
Variable after : {ffun 'I_H -> 'rV[F]_m} -> Out.
Definition answer A B := after
  [ffun h => merge exp (told A (h, None)) (\row_j told A (h, Some j))%R (lamB B h) (oB B h)].
(* Step 2: nothing else of A gets through. *)
Lemma answer_told A A' B : told A =1 told A' -> answer A B = answer A' B.
Proof.
move=> eq; congr after; apply/ffunP => h; rewrite !ffunE eq; congr merge.
by apply/rowP => j; rewrite !mxE eq.
Qed.
Lemma messages : #|{: 'I_H * option 'I_m}| = H * m.+1.
Proof. by rewrite card_prod card_option !card_ord. Qed.

(* Theorem 20.3 (What a tile must tell): if the layer computes f A B at the query, for all A and B,
   then H (m + 1) p >= log_2 R. *)
Theorem tile f : (forall A B, answer A B = f A B) -> rows f <= 2 ^ (H * m.+1 * p).
Proof.
move=> right; rewrite -messages; apply: (drawers bits) => A A' _ _ eq.
by apply/ffunP => B; rewrite !ffunE -!right (answer_told _ eq).
Qed.

(* Corollary 20.6 (Looking up): list s stands in the tile, B asks for place j, and the answer is read
   as a bit. At most 2^(H (m + 1) p) lists are answered rightly at every place; if all are, then
   H (m + 1) p >= n. *)
Variables (n : nat) (list : {ffun 'I_n -> bool} -> TA) (asks : 'I_n -> TB) (bit : Out -> bool).
Definition right_everywhere := [set s | [forall j, bit (answer (list s) (asks j)) == s j]].
Theorem lookup : #|right_everywhere| <= 2 ^ (H * m.+1 * p).
Proof.
rewrite -messages -[right_everywhere]imset_id.
apply: (drawers (told := fun s => told (list s))) => [x|s s'].
  by have [few [small mem]] := bits x; exists few.
rewrite !inE => /forallP r /forallP r' eq; apply/ffunP => j.
by rewrite -(eqP (r j)) -(eqP (r' j)) (answer_told _ eq).
Qed.
Theorem lookup_all : (forall s j, bit (answer (list s) (asks j)) = s j) -> n <= H * m.+1 * p.
Proof.
move=> all; have := lookup; rewrite (_ : right_everywhere = setT).
  by rewrite cardsT card_ffun card_bool card_ord leq_exp2l.
by apply/setP => s; rewrite !inE; apply/forallP => j; rewrite all.
Qed.
End Tile.

(* Instance: a tile of one token, whose value is its bit, tells that bit. *)
Example one_bit (F : realFieldType) (exp ln : F -> F) : (forall x, 0 < exp x)%R ->
  exists (logit : bool -> 'I_1 -> 'I_1 -> F) (value : bool -> 'I_1 -> 'I_1 -> 'rV[F]_1) round,
  exists (lamB : unit -> 'I_1 -> F) oB (after : {ffun 'I_1 -> 'rV[F]_1} -> bool),
  let S := [set: 'I_1] in
  (forall x, exists s : seq F, size s <= 2 ^ 1 /\
     forall A, told exp ln S logit value round A x \in s) /\
  forall A B, answer exp ln S logit value round lamB oB after A B = A.
Proof.
move=> exp0; exists (fun _ _ _ => 0%R), (fun A _ _ => const_mx A%:R)%R, (fun _ _ x => x).
exists (fun _ _ => 0%R), (fun _ _ => 0%R).
exists (fun o : {ffun 'I_1 -> 'rV[F]_1} => o ord0 ord0 ord0 != 0)%R => S; split=> [x|A B].
  pose t (A : bool) :=
    told exp ln S (fun _ _ _ => 0%R) (fun (A : bool) _ _ => const_mx A%:R)%R (fun _ _ x => x) A x.
  by exists [:: t false; t true]; split=> // -[]; rewrite !inE eqxx ?orbT.
rewrite /answer /told /merge /number /tile_mean ffunE !mxE /= mulr0 addr0 summxE.
rewrite (eq_bigl predT) => [|i]; last by rewrite inE.
rewrite big_ord1 !mxE; case: A; last by rewrite !mulr0 eqxx.
by rewrite mulr1 !mulf_neq0 ?invr_eq0 ?gt_eqF ?addr_gt0.
Qed.

(* What tasks ask. *)
Section Rows.
Variables (TA TB Out : finType) (f : TA -> TB -> Out).
Lemma rows_ge (K : finType) (r : K -> TA) :
  (forall x x', f (r x) =1 f (r x') -> x = x') -> #|K| <= rows f.
Proof.
move=> sep; have inj : injective (fun x => [ffun B => f (r x) B]).
  by move=> x x' /ffunP eq; apply: sep => B; have := eq B; rewrite !ffunE.
rewrite -cardsT -(card_imset _ inj); apply: subset_leq_card.
by apply/subsetP => _ /imsetP[x _ ->]; apply: imset_f.
Qed.
(* rows are told apart by k, which takes all values in K *)
Lemma rows_by (K : finType) (k : TA -> K) (r : K -> TA) : cancel r k ->
  (forall A A', k A = k A' -> f A =1 f A') -> (forall x x', f (r x) =1 f (r x') -> x = x') ->
  rows f = #|K|.
Proof.
move=> rk by_k sep; apply/eqP; rewrite eqn_leq (rows_ge sep) andbT -cardsT.
apply: leq_trans (leq_imset_card (fun x => [ffun B => f (r x) B]) _); apply: subset_leq_card.
apply/subsetP => _ /imsetP[A _ ->]; apply/imsetP; exists (k A) => //.
by apply/ffunP => B; rewrite !ffunE; apply: by_k; rewrite rk.
Qed.
End Rows.

(* Proposition 20.7 (What tasks ask). R is the number of rows; log_2 R = n stands as R = 2^n. *)
Section Tasks.
Variable n : nat.
Local Notation list := {ffun 'I_n -> bool}.
Definition ones (s : list) := \sum_i s i.
Lemma ones_le s : ones s <= n.
Proof. by rewrite -[X in _ <= X]card_ord -sum1_card leq_sum // => i _; case: (s i). Qed.
Definition first (a : nat) : list := [ffun i : 'I_n => (i : nat) < a].
Lemma ones_first a : a <= n -> ones (first a) = a.
Proof.
move=> an; rewrite -[RHS]card_ord -sum1_card (big_ord_widen n (fun=> 1) an) [RHS]big_mkcond.
by apply: eq_bigr => i _; rewrite ffunE; case: ltnP.
Qed.
(* (a) the bit at a place; are two strings equal? *)
Theorem ask_lookup : rows (fun (s : list) j => s j) = 2 ^ n.
Proof.
rewrite (@rows_by _ _ _ _ _ id id) ?card_ffun ?card_bool ?card_ord // => [s s' ->|s s' eq] //.
exact/ffunP.
Qed.
Theorem ask_equality : rows (fun s s' : list => s == s') = 2 ^ n.
Proof.
rewrite (@rows_by _ _ _ _ _ id id) ?card_ffun ?card_bool ?card_ord // => [s s' ->|s s' eq] //.
by apply/eqP; rewrite eq_sym -eq.
Qed.
(* (b) more than half of 2 n bits are ones; the number of ones is odd *)
Theorem ask_majority : rows (fun s s' : list => n < ones s + ones s') = n.+1.
Proof.
have ones_f (a : 'I_n.+1) : ones (first a) = a by apply: ones_first; rewrite -ltnS.
rewrite (@rows_by _ _ _ _ _ (fun s => inord (ones s)) (fun a : 'I_n.+1 => first a)) ?card_ord //.
- by move=> a; rewrite ones_f inord_val.
- by move=> s s' /(congr1 val); rewrite /= !inordK ?ltnS ?ones_le // => e B; rewrite e.
have sep (a b : 'I_n.+1) : (forall s, (n < ones (first a) + ones s) = (n < ones (first b) + ones s)) ->
    b <= a.
  move=> eq; rewrite leqNgt; apply/negP => lt; have := eq (first (rev_ord a)).
  by rewrite !ones_f /= subSS subnKC ?leq_ord // ltnn -{1}(subnKC (leq_ord a)) ltn_add2r lt.
by move=> a b eq; apply/val_inj/eqP; rewrite eqn_leq !sep // => s; rewrite eq.
Qed.
Theorem ask_parity : 0 < n -> rows (fun s s' : list => odd (ones s + ones s')) = 2.
Proof.
move=> n0; have le (b : bool) : b <= n by case: b.
rewrite (@rows_by _ _ _ _ _ (fun s => odd (ones s)) (fun b : bool => first b)) ?card_bool //.
- by move=> b; rewrite ones_first // oddb.
- by move=> s s' e B; rewrite !oddD e.
by move=> b b' eq; have := eq (first 0); rewrite !ones_first // !addn0 !oddb.
Qed.
(* (c) does x + y vanish modulo M for a number y of another token? *)
Definition match2 M a b x (A : {ffun 'I_a -> 'I_M}) (B : {ffun 'I_b -> 'I_M}) :=
  [exists i, M %| x + A i] || [exists j, M %| x + B j].
Theorem ask_match2 M a b x : 1 < M -> 0 < a -> rows (@match2 M a b x) = 2.
Proof.
move=> M1 a0; have M0 := ltnW M1; pose num (no : bool) := Ordinal (ltn_pmod (x * M.-1 + no) M0).
have numE no : (M %| x + num no) = ~~ no.
  rewrite /dvdn /= modnDmr addnA -mulnS prednK // modnMDl.
  by case: no; rewrite ?mod0n ?modn_small.
have constE k no : 0 < k -> [exists i : 'I_k, M %| x + [ffun=> num no] i] = ~~ no.
  move=> k0; rewrite -[RHS]numE; apply/existsP/idP => [[i]|mat]; first by rewrite ffunE.
  by exists (Ordinal k0); rewrite ffunE.
pose k (A : {ffun 'I_a -> 'I_M}) := [exists i, M %| x + A i].
rewrite (@rows_by _ _ _ _ _ k (fun c => [ffun=> num (~~ c)])) ?card_bool //.
- by move=> c'; rewrite /k constE // negbK.
- by move=> A A'; rewrite /k /match2 => e B; rewrite e.
move=> c1 c2 eq; have := eq [ffun=> num true]; rewrite /match2 !(constE a) // !negbK.
suff -> : [exists j : 'I_b, M %| x + [ffun=> num true] j] = false by rewrite !orbF.
by apply/existsP => -[j]; rewrite ffunE numE.
Qed.
(* (d) does x + y + z vanish modulo M for numbers y and z of any tokens, the query among them? For
   tiles of n numbers, M = 4 (n + 1) and x = n + 1, there are at least 2^n rows. *)
Definition match3 M a b (x : nat) (A : {ffun 'I_a -> 'I_M}) (B : {ffun 'I_b -> 'I_M}) :=
  let all := x :: [seq (A i : nat) | i <- enum 'I_a] ++ [seq (B j : nat) | j <- enum 'I_b] in
  has (fun y => has (fun z => M %| x + y + z) all) all.
Theorem ask_match3 : 2 ^ n <= rows (@match3 (4 * n.+1) n n n.+1).
Proof.
have ltA (s : list) (j : 'I_n) : (if s j then j.+1 else n.+1) < 4 * n.+1.
  by have := ltn_ord j; case: (s j); arith.
have ltB (s : list) (j : 'I_n) : (if s j then 3 * n.+1 - j.+1 else n.+1) < 4 * n.+1.
  by have := ltn_ord j; case: (s j); arith.
pose tA s := [ffun j => Ordinal (ltA s j)]; pose tB s := [ffun j => Ordinal (ltB s j)].
have once t : 4 * n.+1 %| t -> 0 < t < 8 * n.+1 -> t = 4 * n.+1.
  case/dvdnP=> k ->; rewrite -[8]/(2 * 4) -mulnA muln_gt0 ltn_pmul2r // andbT => lt.
  by case: k lt => [|[|k]] //; rewrite mul1n.
have meets s s' : match3 n.+1 (tA s) (tB s') = [exists j, s j && s' j].
  rewrite /match3; set all := _ :: _.
  have inA (j : 'I_n) : s j -> j.+1 \in all.
    move=> sj; rewrite inE mem_cat; apply/orP; right; apply/orP; left.
    by apply/mapP; exists j; rewrite ?mem_enum // ffunE /= sj.
  have inB (j : 'I_n) : s' j -> 3 * n.+1 - j.+1 \in all.
    move=> sj; rewrite inE mem_cat; apply/orP; right; apply/orP; right.
    by apply/mapP; exists j; rewrite ?mem_enum // ffunE /= sj.
  (* small numbers and large ones *)
  have kinds y : y \in all -> [\/ exists2 j : 'I_n, s j & y = j.+1, y = n.+1 |
      exists2 j : 'I_n, s' j & y = 3 * n.+1 - j.+1].
    rewrite inE mem_cat => /orP[/eqP ->|/orP[]/mapP[j _ ->]]; first by constructor 2.
      by rewrite ffunE /=; case: ifP => sj; [constructor 1; exists j|constructor 2].
    by rewrite ffunE /=; case: ifP => sj; [constructor 3; exists j|constructor 2].
  apply/idP/existsP => [/hasP[y /kinds yk /hasP[z /kinds zk div]]|[j /andP[sj s'j]]]; last first.
    apply/hasP; exists j.+1; first exact: inA.
    apply/hasP; exists (3 * n.+1 - j.+1); first exact: inB.
    by rewrite (_ : _ + _ = 4 * n.+1) //; have := ltn_ord j; arith.
  have common (i j : 'I_n) : s i -> s' j -> i = j :> nat -> exists k, s k && s' k.
    by move=> si sj /val_inj e; exists i; rewrite si e.
  have := once _ div.
  case: yk => [[i si ->]|->|[i si ->]]; case: zk => [[j sj ->]|->|[j sj ->]];
    try have := ltn_ord i; try have := ltn_ord j; move=> *; try (exfalso; arith).
    by apply: (common i j) => //; arith.
  by apply: (common j i) => //; arith.
have := @rows_ge _ _ _ (@match3 (4 * n.+1) n n n.+1) _ tA.
rewrite card_ffun card_bool card_ord; apply=> s s' eq; apply/ffunP => j.
have alone (t : list) : [exists i, t i && [ffun i => i == j] i] = t j.
  apply/existsP/idP => [[i]|tj]; first by rewrite ffunE => /andP[ti /eqP <-].
  by exists j; rewrite tj ffunE eqxx.
by rewrite -alone -(alone s') -!meets eq.
Qed.
End Tasks.

(* Proposition 20.8 (The bits are there). Numbers of p binary digits. *)
Lemma tail p (b : 'I_p.+1 -> bool) :
  \sum_r b r * 2 ^ r = b ord0 + (\sum_(r < p) b (lift ord0 r) * 2 ^ r).*2.
Proof.
rewrite big_ord_recl muln1 -muln2 big_distrl; congr (_ + _); apply: eq_bigr => r _.
by rewrite /= /bump add1n expnSr mulnA.
Qed.
Lemma binary_lt p (b : 'I_p -> bool) : \sum_r b r * 2 ^ r < 2 ^ p.
Proof.
elim: p b => [|p IH] b; first by rewrite big_ord0.
rewrite tail expnS; have := IH (fun r => b (lift ord0 r)); set S := \sum_(r < p) _.
by move: S (2 ^ p) (b ord0) => S N []; rewrite -mul2n; arith.
Qed.
Lemma binary p (b b' : 'I_p -> bool) : \sum_r b r * 2 ^ r = \sum_r b' r * 2 ^ r -> b =1 b'.
Proof.
elim: p b b' => [|p IH] b b'; first by move=> _ [].
rewrite !tail => e; have e0 : b ord0 = b' ord0.
  by have := congr1 odd e; rewrite !oddD !odd_double !addbF !oddb.
move/eqP: e; rewrite e0 eqn_add2l -!muln2 eqn_pmul2r // => /eqP/IH eq r.
by case: (unliftP ord0 r) => [r' ->|->].
Qed.
Section Reached.
Variables (F : realFieldType) (exp ln : F -> F).
Local Open Scope ring_scope.
Hypothesis expD : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_gt0 : forall x, 0 < exp x.
Hypothesis lnK : forall y, 0 < y -> exp (ln y) = y.
(* the n = H m p positions: digit r of number (h, c) *)
Variables H m p : nat.
Local Notation position := ('I_H * 'I_m * 'I_p)%type.
Local Notation n := (H * m * p)%N.
(* the value of the token at a position, in head h: its number is n 2^r if its bit is 1 *)
Definition val (s : {ffun position -> bool}) (h : 'I_H) (i : position) : 'rV[F]_m :=
  \row_c (n * (s i * (i.1 == (h, c))) * 2 ^ i.2)%:R.
Definition num (s : {ffun position -> bool}) h c := (\sum_(r < p) s (h, c, r) * 2 ^ r)%N.
(* The numbers that H heads tell, with equal logits, are whole numbers from 0 to 2^p - 1; no two
   lists of bits have the same. *)
Theorem reached l : (0 < n)%N ->
  (forall s h c, tile_mean exp ln setT (fun=> l) (val s h) 0 c = (num s h c)%:R /\
    (num s h c < 2 ^ p)%N) /\
  forall s s', (forall h c, num s h c = num s' h c) -> s = s'.
Proof.
move=> n0; split=> [s h c|s s' eq]; last first.
  by apply/ffunP => -[[h c] r]; apply: (binary (eq h c)).
split; last exact: binary_lt.
have card : #|[set: position]| = n by rewrite cardsT !card_prod !card_ord.
have T0 : [set: position] != set0 by rewrite -card_gt0 card.
rewrite (tile_meanE expD exp_gt0 lnK) // sumr_const card -scaler_sumr scalerA mxE summxE.
have -> : (exp l *+ n)^-1 * exp l = n%:R^-1.
  by rewrite -[exp l *+ _]mulr_natl invfM -mulrA mulVf ?mulr1 ?gt_eqF.
rewrite (eq_bigl predT) => [|i]; last by rewrite inE.
have -> : \sum_i val s h i 0 c = (n * num s h c)%:R.
  under eq_bigr do rewrite mxE.
  rewrite -natr_sum; congr (_%:R).
  rewrite (eq_bigr (fun i => n * (s (i.1, i.2) * (i.1 == (h, c))) * 2 ^ i.2)%N) => [|[]] //.
  rewrite -(pair_bigA _ (fun x r => n * (s (x, r) * (x == (h, c))) * 2 ^ r)%N) /=.
  rewrite (bigD1 (h, c)) //= [X in (_ + X)%N]big1 ?addn0.
    by rewrite /num big_distrr; apply: eq_bigr => r _; rewrite eqxx muln1 -mulnA.
  by move=> x /negbTE ->; apply: big1 => r _; rewrite !muln0.
by rewrite [X in _ * X]natrM mulKf // pnatr_eq0 -lt0n.
Qed.
End Reached.

(* A tile that tells nothing, where nothing is asked: one row in the table. *)
Example tile_met (F : realFieldType) (exp ln : F -> F) (S : {set 'I_2})
  (logit : bool -> 'I_1 -> 'I_2 -> F) (value : bool -> 'I_1 -> 'I_2 -> 'rV[F]_1)
  (f := fun _ _ : bool => true) : (rows f <= 2 ^ (1 * 1.+1 * 0))%N.
Proof.
apply: (@tile F exp ln 1 1 0 bool_finType bool_finType bool_finType [finType of 'I_2] S logit value
  (fun _ _ _ => 0%R) _ (fun _ _ => 0%R) (fun _ _ => 0%R) (fun _ => true)) => // x.
by exists [:: 0%R]; split=> // A; rewrite inE.
Qed.
