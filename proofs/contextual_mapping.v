(* Page 17, page one_layer_memorization/contextual_mapping.
   ids.sharp (Proposition 17.7), ids.mean (Proposition 17.8).
   R is any ordered field; exp is the exponential function (exponential.v). *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions identities exponential.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Counting pairs: if v is a function of w, it has no more values than w ---- *)
Lemma size_through (T V : eqType) (W : finType) (s : seq T) (v : T -> V) (w : T -> W)
    (h : W -> V) : (forall x, v x = h (w x)) -> (size (undup (map v s)) <= #|W|)%N.
Proof.
move=> vw; rewrite cardE -(size_map h) uniq_leq_size ?undup_uniq // => y.
by rewrite mem_undup => /mapP[x _ ->]; rewrite vw map_f // mem_enum.
Qed.

(* ---- Proposition 17.8 (Mean pooling) ---- *)
Section Mean.
Variables (R : realFieldType) (K : nat) (z : 'I_K -> R).
(* A multiset of n tokens: counts m that add up to n; its mean. *)
Definition multiset_mean (m : 'I_K -> nat) : R := (\sum_k (m k)%:R * z k) / (\sum_k m k)%:R.

(* (a) z_1, ..., z_K linearly independent over the rationals (so for whole coefficients):
   different multisets of one size have different ids. *)
Theorem means_independent (m m' : 'I_K -> nat) :
  (forall c : 'I_K -> int, \sum_k (c k)%:~R * z k = 0 -> forall k, c k = 0) ->
  (0 < \sum_k m k)%N -> (\sum_k m k = \sum_k m' k)%N -> multiset_mean m = multiset_mean m' -> m =1 m'.
Proof.
move=> free n0 eqn; rewrite /multiset_mean -eqn => e k.
have n0' : (\sum_k m k)%:R != 0 :> R by rewrite pnatr_eq0 -lt0n.
(* Equal means are a relation with whole coefficients m_k - m'_k. *)
have rel : \sum_k ((m k)%:Z - (m' k)%:Z)%:~R * z k = 0.
  have /eqP := mulIf (invr_neq0 n0') e; rewrite -subr_eq0 -sumrB => /eqP r.
  rewrite -[RHS]r; apply: eq_bigr => i _; by rewrite intrD rmorphN /= -!pmulrn mulrBl.
by have /eqP := free _ rel k; rewrite subr_eq0 => /eqP[].
Qed.

(* n different numbers below K add up to n(n-1)/2 at least, and to n(K - n) more at most. *)
Lemma sums (P : pred nat) (c := fun k => (\sum_(i < k) P i)%N) (s := fun k => (\sum_(i < k) P i *
  i)%N) k :
  (c k <= k)%N /\ ('C(c k, 2) <= s k <= 'C(c k, 2) + c k * (k - c k))%N.
Proof.
rewrite /c /s; elim: k => [|k [ck /andP[lo hi]]]; first by rewrite !big_ord0.
rewrite !big_ord_recr /=; case: (P k); rewrite /= ?mul1n ?mul0n ?addn0 ?addn1; last first.
  split; first exact: leqW.
  by rewrite lo (leq_trans hi) // leq_add2l leq_mul2l leq_sub2r ?orbT.
rewrite ltnS subSS binS bin1; split=> //; rewrite leq_add //=.
by rewrite mulSn [(k - _ + _)%N]addnC addnACA subnKC // leq_add2r.
Qed.

(* (b) Equispaced tokens z_k = a + b k: all tokens in n-subsets, listed in Ss,
  give at most K (n (K - n) + 1)
   pairs of token id and context id. *)
Theorem means_equispaced n a b (Ss : seq ('I_K * {set 'I_K})) :
  (forall k : 'I_K, z k = a + b * (k : nat)%:R) ->
  (forall p, p \in Ss -> p.1 \in p.2 /\ #|p.2| = n) ->
  (size (undup [seq (z p.1, mean_on p.2 z) | p <- Ss]) <= K * (n * (K - n)).+1)%N.
Proof.
move=> zE sub; pose sum (S : {set 'I_K}) := (\sum_(k in S) (k : nat))%N.
have bounds (S : {set 'I_K}) : #|S| = n -> ('C(n, 2) <= sum S <= 'C(n, 2) + n * (K - n))%N.
  move=> Sn; pose P i := if insub i is Some k then k \in S else false.
  have PS (k : 'I_K) : P k = (k \in S) by rewrite /P valK.
  have -> : sum S = (\sum_(i < K) P i * i)%N.
    by rewrite /sum big_mkcond; apply: eq_bigr => k _; rewrite PS; case: (k \in S); rewrite ?mul1n.
  have <- : (\sum_(i < K) P i)%N = n.
    by rewrite -Sn -sum1_card [RHS]big_mkcond; apply: eq_bigr => k _; rewrite PS; case: (k \in S).
  by case: (sums P K).
(* The pair is a function of the token and of the excess of the sum. *)
pose w (p : 'I_K * {set 'I_K}) : 'I_K * 'I_(n * (K - n)).+1 := (p.1, inord (sum p.2 - 'C(n, 2))).
pose h (q : 'I_K * 'I_(n * (K - n)).+1) : R * R :=
  (z q.1, (a *+ n + b * ('C(n, 2) + q.2)%:R) / n%:R).
have vw p : p \in Ss -> (z p.1, mean_on p.2 z) = h (w p).
  move=> /sub[_ pn]; have /andP[lo hi] := bounds _ pn.
  rewrite /h /w /= /mean_on pn inordK ?ltnS ?leq_subLR // subnKC //; congr (_, _ / _).
  under eq_bigr do rewrite zE; rewrite big_split /= sumr_const pn -mulr_sumr; congr (_ + _ * _).
  by rewrite /sum natr_sum.
have -> : [seq (z p.1, mean_on p.2 z) | p <- Ss] = [seq h (w p) | p <- Ss] by apply/eq_in_map.
have := @size_through _ _ [finType of 'I_K * 'I_(n * (K - n)).+1] Ss (fun p => h (w p)) w h.
by rewrite card_prod !card_ord; apply.
Qed.
End Mean.

(* ---- Proposition 17.7 (Sharp attention) ---- *)
Section Sharp.
Variables (R : realFieldType) (K : nat) (z : 'I_K -> R) (beta : R).
Hypothesis z0 : forall k, z k != 0.
Hypothesis beta0 : 0 < beta.

(* (a) Hardmax: the mean of the values whose logit beta z_k z_j is largest in the sequence. *)
Local Notation winners k := (winners (fun j => beta * z k * z j)).
Definition hard k X := (\sum_(j <- winners k X) z j) / (size (winners k X))%:R.

Lemma hard_value k X : k \in X -> exists j, hard k X = z j.
Proof.
move=> kX; have kap : beta * z k != 0 by rewrite mulf_neq0 // gt_eqF.
(* Some token wins, and all winners have the same z. *)
have [j jw] : exists j, j \in winners k X.
  have [j jX max] : exists2 j, j \in X & forall i, i \in X -> beta * z k * z i <= beta * z k * z j.
    by case: (@arg_maxP _ _ _ k (mem X) (fun i => beta * z k * z i) kX) => j jX max; exists j.
  by exists j; rewrite mem_filter jX andbT; apply/allP.
exists j; have same i : i \in winners k X -> z i = z j.
  move: jw; rewrite !mem_filter => /andP[/allP maxj jX] /andP[/allP maxi iX].
  by apply: (mulfI kap); apply/eqP; rewrite eq_le maxj //= maxi.
have w0 : (0 < size (winners k X))%N by case: (winners k X) jw.
rewrite /hard big_seq (eq_bigr (fun _ => z j)) => [|i iw]; last exact: same.
rewrite -big_seq big_const_seq count_predT iter_addr_0 -[z j *+ _]mulr_natr mulfK //.
by rewrite pnatr_eq0 -lt0n.
Qed.
(* However many sequences Xs there are, with hardmax there are at most K^2 pairs of token id and
   context id. *)
Theorem hard_pairs (Xs : seq ('I_K * seq 'I_K)) : (forall p, p \in Xs -> p.1 \in p.2) ->
  (size (undup [seq (z p.1, hard p.1 p.2) | p <- Xs]) <= K ^ 2)%N.
Proof.
move=> own; pose val p := [pick j | hard p.1 p.2 == z j].
have -> : (K ^ 2 = #|[finType of 'I_K * 'I_K]|)%N by rewrite card_prod !card_ord.
pose h (q : 'I_K * 'I_K) := (z q.1, z q.2).
pose w (p : 'I_K * seq 'I_K) := (p.1, odflt p.1 (val p)).
have -> : [seq (z p.1, hard p.1 p.2) | p <- Xs] = [seq h (w p) | p <- Xs].
  apply/eq_in_map => p /own /hard_value[j e]; rewrite /h /w /val /=.
  by case: pickP => [i /eqP -> //|/(_ j)]; rewrite e eqxx.
exact: (@size_through _ _ _ _ _ w h).
Qed.

(* (b) Softmax, no repeated token: S a set of n tokens. *)
Variable exp : R -> R.
Hypothesis expE : exponential exp.
Let expD := expD expE.        Let exp_gt0 := exp_gt0 expE.
Definition soft k (S : {set 'I_K}) :=
  (\sum_(j in S) z j * exp (beta * z k * z j)) / \sum_(j in S) exp (beta * z k * z j).
Variables (g s : R).
Hypothesis gap : forall i j, i != j -> g <= `|z i - z j|.
Hypothesis span : forall i j, `|z i - z j| <= s.

(* z_j* is the largest z of S if z_k > 0, the smallest if z_k < 0: it has the largest logit. *)
Theorem soft_near k (S : {set 'I_K}) j : k \in S -> j \in S ->
  (if 0 < z k then forall i, i \in S -> z i <= z j else forall i, i \in S -> z j <= z i) ->
  `|soft k S - z j| <= s * (#|S|.-1)%:R * exp (- (beta * `|z k| * g)).
Proof.
move=> kS jS ext; pose e i := exp (beta * z k * z i); pose Z := \sum_(i in S) e i.
have e0 i : 0 < e i by apply: exp_gt0.
have Z0 : 0 < Z by rewrite /Z (bigD1 j) //= ltr_paddr // sumr_ge0 // => i _; apply: ltW.
have s0 : 0 <= s := le_trans (normr_ge0 _) (span j j).
have dE : soft k S - z j = (\sum_(i in S) (z i - z j) * e i) / Z.
  rewrite /soft -/Z; apply: (mulIf (lt0r_neq0 Z0)); rewrite mulrBl !divfK ?lt0r_neq0 //.
  by rewrite mulr_sumr -sumrB; apply: eq_bigr => i _; rewrite mulrBl.
rewrite dE normrM normfV (gtr0_norm Z0) ler_pdivr_mulr //.
apply: le_trans (ler_norm_sum _ _ _) _; rewrite (bigD1 j) //= subrr mul0r normr0 add0r.
(* Each of the n - 1 other terms is at most s e^(- beta |z_k| g) e^(logit of j). *)
apply: (@le_trans _ _ (\sum_(i in S | i != j) s * (exp (- (beta * `|z k| * g)) * e j))).
  apply: ler_sum => i /andP[iS ij]; rewrite normrM ler_pmul // ?normr_ge0 //.
  rewrite (gtr0_norm (exp_gt0 _)) /e -expD; rewrite (exp_le expE).
  have gz : beta * `|z k| * g <= beta * `|z k| * `|z i - z j|.
    by rewrite ler_wpmul2l ?gap // mulr_ge0 ?normr_ge0 // ltW.
  rewrite -subr_ge0; have [zk|zk] := ltP 0 (z k); rewrite ?zk ?(ltNge 0 (z k)) ?zk /= in ext gz *.
    rewrite (gtr0_norm zk) distrC ger0_norm ?subr_ge0 ?ext // in gz *.
    rewrite -subr_ge0; rewrite -subr_ge0 in gz; move: gz; congr (is_true (0 <= _)); ident.
  rewrite (ler0_norm zk) ger0_norm ?subr_ge0 ?ext // in gz *.
  rewrite -subr_ge0; rewrite -subr_ge0 in gz; move: gz; congr (is_true (0 <= _)); ident.
have -> : \sum_(i in S | i != j) s * (exp (- (beta * `|z k| * g)) * e j) =
    s * (#|S|.-1)%:R * exp (- (beta * `|z k| * g)) * e j.
  have cE : (\sum_(i in S | i != j) 1 = #|S|.-1)%N.
    by rewrite (cardsD1 j S) jS -sum1_card; apply: eq_bigl => i; rewrite !inE andbC.
  rewrite -cE natr_sum mulr_sumr !mulr_suml; apply: eq_bigr => i _; ident.
rewrite ler_wpmul2l ?mulr_ge0 ?ler0n ?(ltW (exp_gt0 _)) //.
by rewrite /Z (bigD1 j) //= ler_addl sumr_ge0 // => i _; apply: ltW.
Qed.
End Sharp.

(* ---- Instances ---- *)
(* One token, of id 1. *)
Example means_independent_met (R : realFieldType) (m m' : 'I_1 -> nat) : (0 < m ord0)%N ->
  m ord0 = m' ord0 -> m =1 m'.
Proof.
move=> m0 mm; apply: (@means_independent R 1 (fun _ => 1)); rewrite ?big_ord1 //.
  by move=> c; rewrite big_ord1 mulr1 => /eqP; rewrite intr_eq0 => /eqP c0 k; rewrite ord1.
by rewrite /multiset_mean !big_ord1 mm.
Qed.
(* The tokens 0 and 1, and both alone. *)
Example means_equispaced_met (R : realFieldType) (z := fun k : 'I_2 => 0 + 1 * (k : nat)%:R : R)
  (Ss := [seq (k, [set k]) | k <- enum 'I_2]) :
  (size (undup [seq (z p.1, mean_on p.2 z) | p <- Ss]) <= 2 * (1 * (2 - 1)).+1)%N.
Proof.
by apply: (means_equispaced (a := 0) (b := 1)) => // p /mapP[k _ ->]; rewrite inE eqxx cards1.
Qed.
Example hard_pairs_met (R : realFieldType) (z := fun k : 'I_2 => (k.+1)%:R : R)
  (Xs := [seq (k, [:: k]) | k <- enum 'I_2]) :
  (size (undup [seq (z p.1, hard z 1 p.1 p.2) | p <- Xs]) <= 2 ^ 2)%N.
Proof.
apply: hard_pairs => [k||p /mapP[k _ ->]]; [by rewrite pnatr_eq0 | exact: ltr01 | by rewrite inE /=].
Qed.
