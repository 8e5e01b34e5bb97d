(* Page 17, page one_layer_memorization/contextual_mapping, continued.
   Proposition 17.6 (Positions): ids.positions. *)
From mathcomp Require Import all_ssreflect all_algebra perm.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- (a) The layer (17.1) is permutation-equivariant. exp may be any function. ---- *)
Section Layer.
Variables (R : realFieldType) (exp : R -> R) (n d : nat) (v : 'rV[R]_d) (beta w : R).
Definition id (x : 'rV[R]_d) : R := (x *m v^T) 0 0.
Definition context (X : 'I_n -> 'rV[R]_d) k : R :=
  (\sum_j id (X j) * exp (beta * id (X k) * id (X j))) / \sum_j exp (beta * id (X k) * id (X j)).
Definition head X k : 'rV[R]_d := X k + (w * context X k) *: v.

Theorem equivariant (X : 'I_n -> 'rV[R]_d) (s : {perm 'I_n}) k :
  head (fun j => X (s j)) k = head X (s k).
Proof.
(* f_k is a sum over all j, and the order of its terms does not matter. *)
have perm_sum (F : 'I_n -> R) : \sum_j F (s j) = \sum_j F j.
  by rewrite [RHS](reindex_inj (@perm_inj _ s)).
pose e j := exp (beta * id (X (s k)) * id (X j)).
by rewrite /head /context (perm_sum (fun j => id (X j) * e j)) (perm_sum e).
Qed.
End Layer.
(* At beta = 0 all weights are equal, and the context id is the mean of the ids. *)
Lemma context_at_0 (R : realFieldType) (exp : R -> R) n d (v : 'rV[R]_d) (X : 'I_n -> 'rV[R]_d) k :
  exp 0 = 1 -> context exp v 0 X k = (\sum_j id v (X j)) / n%:R.
Proof.
move=> e0; rewrite /context; congr (_ / _); last first.
  by under eq_bigr do rewrite !mul0r e0; rewrite sumr_const card_ord.
by apply: eq_bigr => j _; rewrite !mul0r e0 mulr1.
Qed.

(* ---- (b) Encoded tokens are apart. N is any norm; V holds the K tokens. ---- *)
Section Encoded.
Variables (R : realFieldType) (d n K : nat) (N : 'rV[R]_d -> R).
Hypothesis N_triangle : forall x y, N (x + y) <= N x + N y.
Hypothesis N_scale : forall t x, N (t *: x) = `|t| * N x.
Variables (tok : 'I_K -> 'rV[R]_d) (u : 'rV[R]_d) (rmax eps : R).
Hypotheses (u1 : N u = 1) (eps0 : 0 < eps).
Hypothesis short : forall a, N (tok a) <= rmax.
Hypothesis far : forall a b, a != b -> eps <= N (tok a - tok b).
Definition big := 2%:R * rmax + eps.                                     (* R on the page *)
(* The places are 1, ..., n: j : 'I_n is the place j + 1. *)
Definition enc a (j : 'I_n) := tok a + (j.+1%:R * big) *: u.

Lemma N_opp x : N (- x) = N x.
Proof. by rewrite -scaleN1r N_scale normrN1 mul1r. Qed.
Lemma N_ge0 x : 0 <= N x.
Proof.
have := N_triangle x (- x).
by rewrite subrr N_opp -(scale0r 0) N_scale normr0 mul0r -mulr2n pmulrn_lge0.
Qed.
Lemma N_lower x y : N y - N x <= N (x + y).
Proof.
rewrite ler_subl_addl -{1}(addKr x y) addrC -(N_opp x) addrC.
by rewrite (le_trans (N_triangle _ _)) // N_opp.
Qed.
Lemma place (t : R) : 0 <= t -> N (t *: u) = t.
Proof. by move=> t0; rewrite N_scale u1 mulr1 ger0_norm. Qed.
Lemma rmax0 (a : 'I_K) : 0 <= rmax. Proof. exact: le_trans (N_ge0 _) (short a). Qed.
Lemma big0 (a : 'I_K) : 0 <= big.
Proof. by rewrite addr_ge0 ?mulr_ge0 ?ler0n ?(rmax0 a) ?ltW. Qed.

(* The nK encoded tokens are at least eps apart, ... *)
Theorem encoded_apart a b (j l : 'I_n) : (a, j) != (b, l) -> eps <= N (enc a j - enc b l).
Proof.
have [->|jl] := eqVneq j l => [ab|_].
  (* at the same place their distance is that of the tokens, *)
  rewrite /enc opprD addrACA subrr addr0 far //.
  by apply: contra ab => /eqP ->.
(* at different places at least R - 2 rmax = eps. *)
wlog lj : a b j l jl / (l < j)%N => [sym|].
  have := jl; rewrite neq_ltn => /orP[lt|]; last exact: sym.
  by rewrite -N_opp opprB sym // eq_sym.
rewrite /enc opprD addrACA -scalerBl -mulrBl; apply: le_trans (N_lower _ _).
have jl1 : 1 <= j.+1%:R - l.+1%:R :> R.
  by rewrite ler_subr_addl -mulrSr ler_nat.
rewrite place ?mulr_ge0 ?(big0 a) ?(le_trans ler01) //.
have -> : eps = 1 * big - (rmax + rmax) by rewrite mul1r /big mulr_natl addrAC subrr add0r.
rewrite ler_sub ?ler_wpmul2r ?(big0 a) // (le_trans (N_triangle _ _)) // N_opp.
by rewrite ler_add.
Qed.
(* ... with norms from rmax + eps to n R + rmax. *)
Theorem encoded_norms a (j : 'I_n) : rmax + eps <= N (enc a j) <= n%:R * big + rmax.
Proof.
have b0 := big0 a; have t0 : 0 <= j.+1%:R * big by rewrite mulr_ge0 ?ler0n.
apply/andP; split.
  apply: le_trans (N_lower _ _); rewrite place // ler_subr_addr.
  apply: (@le_trans _ _ big); last by rewrite ler_pemull // ler1n.
  by rewrite /big mulr_natl mulr2n [X in X <= _]addrAC ler_add2r ler_add2l short.
rewrite (le_trans (N_triangle _ _)) // place // addrC ler_add //.
by rewrite ler_wpmul2r // ler_nat.
Qed.
(* So no encoded token repeats, and different sequences have different sets. *)
Theorem encoded_sets (a b : 'I_n -> 'I_K) :
  (forall x, (exists j, x = enc (a j) j) <-> (exists j, x = enc (b j) j)) -> a =1 b.
Proof.
move=> same j; have [l e] : exists l, enc (a j) j = enc (b l) l by apply/same; exists j.
apply/eqP/negPn/negP => ne; have : eps <= 0.
  have <- : N (enc (a j) j - enc (b l) l) = 0.
    by rewrite e subrr -(scale0r u) N_scale normr0 mul0r.
  by apply: encoded_apart; apply: contra ne => /eqP[-> ->].
by rewrite leNgt eps0.
Qed.
End Encoded.

(* ---- (c) At beta = 0 the context id is the mean, and counts little. ---- *)
(* If v tells elements of a list apart exactly as w does, both have equally many values. *)
Lemma same_number (T V W : eqType) (s : seq T) (v : T -> V) (w : T -> W) :
  (forall x y, v x = v y <-> w x = w y) -> size (undup (map v s)) = size (undup (map w s)).
Proof.
move=> vw; elim: s => //= x s IH; suff -> : (v x \in map v s) = (w x \in map w s).
  by case: ifP => // _; rewrite /= IH.
by apply/mapP/mapP => -[y ys e]; exists y => //; apply/vw.
Qed.

Section Count.
(* n = N + 1 places, K = M + 1 tokens; the encoded token a at place j has the id z a + b j. *)
Variables (R : realFieldType) (N M : nat).
Local Notation n := N.+1.       Local Notation K := M.+1.
Variables (z : 'I_K -> R) (b : 'I_n -> R).
Hypothesis free : forall c : 'I_K -> int, \sum_a (c a)%:~R * z a = 0 -> forall a, c a = 0.
Definition context_mean (X : {ffun 'I_n -> 'I_K}) : R := mean (fun j => z (X j) + b j).
(* Encoded token and context id of the token at place k of the sequence X. *)
Definition pair (p : {ffun 'I_n -> 'I_K} * 'I_n) := ((p.1 p.2, p.2), context_mean p.1).

(* How often each token stands at the other N places. *)
Definition count (p : {ffun 'I_n -> 'I_K} * 'I_n) (a : 'I_K) : nat :=
  \sum_(i < N) (p.1 (lift p.2 i) == a).
Lemma count_le p a : (count p a < n)%N.
Proof.
rewrite ltnS; apply: (@leq_trans (\sum_(i < N) 1)); last by rewrite sum1_card card_ord.
by apply: leq_sum => i _; apply: leq_b1.
Qed.
Lemma count_sum p : (\sum_a count p a = N)%N.
Proof.
rewrite exchange_big -[RHS]card_ord -sum1_card; apply: eq_bigr => i _.
by rewrite (bigD1 (p.1 (lift p.2 i))) //= eqxx big1 // => a /negbTE; rewrite eq_sym => ->.
Qed.
Definition counts p : K.-tuple 'I_n := [tuple Ordinal (count_le p a) | a < K].
Lemma counts_nth p a : tnth (counts p) a = count p a :> nat.
Proof. by rewrite tnth_mktuple. Qed.

(* The mean is that of the query and of the counts. *)
Lemma context_meanE p : context_mean p.1 * n%:R =
  z (p.1 p.2) + \sum_a (count p a)%:R * z a + \sum_j b j.
Proof.
rewrite /context_mean meanE divfK ?pnatr_eq0 // big_split /=; congr (_ + _).
rewrite (bigD1_ord p.2) //=; congr (_ + _).
under [RHS]eq_bigr do rewrite /count natr_sum mulr_suml.
rewrite exchange_big; apply: eq_bigr => i _ /=.
rewrite (bigD1 (p.1 (lift p.2 i))) //= eqxx mul1r big1 ?addr0 // => a.
by rewrite eq_sym => /negbTE ->; rewrite mul0r.
Qed.
Lemma pair_counts p q :
  pair p = pair q <-> (p.1 p.2, p.2, counts p) = (q.1 q.2, q.2, counts q).
Proof.
split=> [[e1 e2 em]|e].
  (* Equal means are a relation with whole coefficients. *)
  suff -> : counts p = counts q by rewrite e1 e2.
  apply/eq_from_tnth => a; apply/val_inj; rewrite /= !counts_nth.
  have rel : \sum_a ((count p a)%:Z - (count q a)%:Z)%:~R * z a = 0.
    have := congr1 ( *%R^~ n%:R) em; rewrite /= !context_meanE e1 => /addIr/addrI/eqP.
    rewrite -subr_eq0 -sumrB => /eqP r; rewrite -[RHS]r; apply: eq_bigr => i _.
    by rewrite intrD rmorphN /= -!pmulrn mulrBl.
  by have /eqP := free rel a; rewrite subr_eq0 => /eqP[].
have ec : counts p = counts q := congr1 snd e.
case: e => e1 e2 _.
rewrite /pair e1 e2; congr (_, _).
have nz : n%:R != 0 :> R by rewrite pnatr_eq0.
apply: (mulIf nz); rewrite !context_meanE e1; congr (_ + _ + _); apply: eq_bigr => a _.
by rewrite -!counts_nth ec.
Qed.

(* Every query and every multiset of N other tokens occurs: list them, and put the query at k. *)
Lemma all_occur (k : 'I_n) (a : 'I_K) (t : K.-tuple 'I_n) : (\sum_(i <- t) i = N)%N ->
  exists p : {ffun 'I_n -> 'I_K} * 'I_n, (p.1 p.2, p.2, counts p) = (a, k, t).
Proof.
move=> tN; pose s := flatten [seq nseq (tnth t c) c | c <- enum 'I_K].
have sN : size s = N.
  rewrite size_flatten /shape -map_comp sumnE big_map -[RHS]tN big_tuple big_enum /=.
  by apply: eq_big => // c _; rewrite size_nseq.
pose X := [ffun j => if unlift k j is Some i then nth a s i else a].
exists (X, k); rewrite /= ffunE unlift_none; congr (_, _, _).
apply/eq_from_tnth => c; apply/val_inj; rewrite /= counts_nth /count /=.
transitivity (count_mem c s).
  rewrite -sum1_count (big_nth a) sN big_mkord [RHS]big_mkcond; apply: eq_bigr => i _ /=.
  by rewrite ffunE liftK; case: (_ == c).
rewrite count_flatten -map_comp sumnE big_map big_enum (bigD1 c) //= count_nseq /= eqxx mul1n.
by rewrite big1 ?addn0 // => e /negbTE ne; rewrite count_nseq /= ne.
Qed.

(* There are n K binomial(K + n - 2, n - 1) pairs, over all sequences and all places. *)
Theorem mean_pairs :
  size (undup [seq pair p | p <- enum [finType of {ffun 'I_n -> 'I_K} * 'I_n]]) =
  (n * K * 'C(K + n - 2, n.-1))%N.
Proof.
pose w (p : {ffun 'I_n -> 'I_K} * 'I_n) := (p.1 p.2, p.2, counts p).
rewrite (@same_number _ _ _ _ _ w); last exact: pair_counts.
pose S := [set t : K.-tuple 'I_n | (\sum_(i <- t) i == N)%N].
have -> : size (undup [seq w p | p <- enum [finType of {ffun 'I_n -> 'I_K} * 'I_n]]) =
    #|setX (setX [set: 'I_K] [set: 'I_n]) S|.
  rewrite -(card_uniqP (undup_uniq _)); apply: eq_card => -[[a k] t].
  rewrite mem_undup !inE /=; apply/mapP/eqP => [[p _ e]|tN].
    have -> : t = counts p := congr1 snd e.
    by rewrite -[RHS](count_sum p) big_tuple; apply: eq_bigr => i _; apply: counts_nth.
  by have [p e] := all_occur k a tN; exists p; rewrite ?mem_enum.
rewrite !cardsX !cardsT !card_ord card_ord_partitions [(K * n)%N]mulnC.
have -> : (K + n - 2 = M + N)%N by rewrite addSn addnS subn2.
by rewrite /= -(bin_sub (leq_addl M N)) addnK.
Qed.
End Count.

(* Instances. Two tokens 1 and -1 on the line, with |x| for the norm, rmax = 1, eps = 2 and n = 2:
   the encoded tokens are 5, 3, 9, 7. *)
Example encoded_met : let tok (a : 'I_2) : 'rV[rat]_1 := const_mx (if a == ord0 then 1 else - 1) in
  let N (x : 'rV[rat]_1) := `|x 0 0| in
  [/\ forall x y, N (x + y) <= N x + N y, forall t x, N (t *: x) = `|t| * N x,
      N (const_mx 1) = 1, forall a, N (tok a) <= 1 &
      forall a b, a != b -> 2%:R <= N (tok a - tok b)].
Proof.
move=> tok N; split=> [x y|t x||a|a b]; rewrite /N ?mxE ?normr1 //.
- exact: ler_norm_add.
- exact: normrM.
- by case: ifP; rewrite ?normrN normr1.
by case: a b => [[|[|]]] // i [[|[|]]] // j.
Qed.
(* One token with the id 1 is independent over the rationals: 2 * 1 * binomial(1, 1) = 2 pairs. *)
Example mean_pairs_1 :
  size (undup [seq pair (fun=> 1 : rat) (fun=> 0) p |
    p <- enum [finType of {ffun 'I_2 -> 'I_1} * 'I_2]]) = 2%N.
Proof.
rewrite mean_pairs //= => c; rewrite big_ord1 mulr1 => /eqP; rewrite intr_eq0 => /eqP c0 a.
by rewrite (ord1 a).
Qed.
