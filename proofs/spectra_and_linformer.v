(* Page 7: Low rank: spectra of attention, and Linformer (Propositions 7.5, 7.7 a, 7.11, 7.2, 7.13, 7.14) *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import definitions.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* Proposition 7.5 *)
Module Entropy.
Section SVD.
Variable F : rcfType.
(* Step 1. The squares of all singular values add up to |P|_F^2. *)
Lemma svd_sum n (P U V : 'M[F]_n) s : is_svd P U s V -> sqnorm P = \sum_i s i ^+ 2.
Proof.
case=> -> UU VV _ _; rewrite sqnorm_tr !trmx_mul trmxK tr_diag_mx !mulmxA.
rewrite -(mulmxA (U *m _) (V^T)) VV mulmx1 mxtrace_mulC !mulmxA UU mul1mx mulmx_diag mxtrace_diag.
by apply: eq_bigr => i _; rewrite !mxE expr2.
Qed.

(* 7.5 *)
Variables (ex ln : F -> F).
Hypotheses lnK : forall x, 0 < x -> ex (ln x) = x.
(* The Renyi entropy; of exp and ln only exp (ln x) = x for x > 0 is used. *)
Definition H2 n (p : 'rV[F]_n) := - ln (\sum_j p 0 j ^+ 2).
(* Proposition 7.5 (Diffuse heads compress), (7.4); k here is the index k + 1 of the page, counted
   from 0. *)
Theorem entropy n (P U V : 'M[F]_n) s (k : 'I_n) : stochastic P -> is_svd P U s V ->
  s k <= Num.sqrt (sqnorm P) / Num.sqrt k.+1%:R /\ sqnorm P = \sum_i ex (- H2 (row i P)).
Proof.
move=> st sv; have [_ _ _ s0 dec] := sv; split.
  have k0 : 0 < Num.sqrt k.+1%:R :> F by rewrite sqrtr_gt0 ltr0n.
  rewrite ler_pdivl_mulr // -ler_sqr ?nnegrE ?mulr_ge0 ?sqrtr_ge0 //.
  have q0 : 0 <= sqnorm P by do 2!(apply: sumr_ge0 => ? _); exact: sqr_ge0.
  rewrite exprMn !sqr_sqrtr ?ler0n // (svd_sum sv) (bigID (fun i : 'I_n => i <= k)%N) /=.
  apply: ler_paddr; first by apply: sumr_ge0 => i _; exact: sqr_ge0.
  apply: (@le_trans _ _ (\sum_(i < n | (i <= k)%N) s k ^+ 2)).
    rewrite sumr_const mulr_natr; have -> : #|[pred i : 'I_n | (i <= k)%N]| = k.+1; last exact:
      lexx.
    by rewrite -sum1_card -(big_ord_widen n (fun=> 1%N) (ltn_ord k)) sum1_card card_ord.
  by apply: ler_sum => i ik; rewrite ler_sqr ?nnegrE // dec.
apply: eq_bigr => i _; rewrite /H2 opprK.
have e j : row i P 0 j = P i j by rewrite mxE.
under [in RHS]eq_bigr do rewrite e; rewrite lnK //.
have [_ P1] := st; rewrite lt_neqAle eq_sym sumr_ge0 ?andbT => [|j _]; last exact: sqr_ge0.
apply/negP => /eqP z; have : \sum_j P i j = 0.
  apply: big1 => j _; apply/eqP; rewrite -sqrf_eq0; apply/eqP.
  exact: (@psumr_eq0P _ _ predT _ (fun j _ => sqr_ge0 (P i j)) z j isT).
by rewrite (P1 i) => /eqP; rewrite oner_eq0.
Qed.
(* Proposition 7.5, last sentence: for each k some P has equality (k + 1 blocks of one token). *)
Theorem entropy_sharp k : let P := 1%:M : 'M[F]_k.+1 in
  exists (U V : 'M[F]_k.+1) (s : 'I_k.+1 -> F), [/\ stochastic P, is_svd P U s V &
  s ord_max = Num.sqrt (sqnorm P) / Num.sqrt k.+1%:R].
Proof.
move=> P; exists 1%:M, 1%:M, (fun=> 1); have sv : is_svd P (1%:M : 'M[F]_k.+1) (fun=> 1) 1%:M.
  split=> [||| _|//]; [|by rewrite trmx1 mulmx1 |by rewrite trmx1 mulmx1 | exact: ler01].
  by rewrite trmx1 mulmx1 mul1mx; apply/matrixP => i j; rewrite !mxE.
split=> //; first split=> [i j|i]; first by rewrite mxE ler0n.
  by rewrite (bigD1 i) //= mxE eqxx big1 ?addr0 // => j; rewrite eq_sym mxE => /negbTE ->.
rewrite (svd_sum sv) expr1n sumr_const card_ord divff // gt_eqF // sqrtr_gt0 ltr0n //.
Qed.
End SVD.
End Entropy.

(* Proposition 7.11 *)
Module Pairs.
(* pairs *)
(* Proposition 7.11 (Any pairs): E = S K^+, F = T V^+. *)
Theorem any_pairs (F : fieldType) n d k e (K : 'M[F]_(n, d)) (V : 'M[F]_(n, e)) :
  \rank K = d -> \rank V = e -> forall (S : 'M_(k, d)) (T : 'M_(k, e)),
  exists E' F' : 'M_(k, n), E' *m K = S /\ F' *m V = T.
Proof.
move=> rK rV S T.
have [fK fV] : row_full K /\ row_full V by rewrite /row_full rK rV !eqxx.
by exists (S *m pinvmx K), (T *m pinvmx V); rewrite !mulmxKpV // submx_full.
Qed.


(* Instance: K = V = the identity. *)
Example two_tokens (S T : 'M[rat]_2) :
  exists E F : 'M[rat]_2, E *m 1%:M = S /\ F *m 1%:M = T.
Proof. by apply: any_pairs; rewrite mxrank1. Qed.
End Pairs.

(* Propositions 7.7 (a) and 7.2, first half *)
Module Partial.
(* Proposition 7.2, first half: fixed E and F with k < n rows lose some values, whatever the
  inputs are. *)
Theorem kernel (F : fieldType) k n (M : 'M[F]_(k, n)) : (k < n)%N ->
  exists2 V : 'cV[F]_n, V != 0 & forall m (weights : 'M_(m, k)), weights *m (M *m V) = 0.
Proof.
move=> kn; have : cokermx M != 0.
  by rewrite -mxrank_eq0 mxrank_coker -lt0n subn_gt0 (leq_ltn_trans (rank_leq_row _)).
rewrite -trmx_eq0 => /rowV0Pn[v /submxP[u uE] v0].
exists v^T => [|m weights]; first by rewrite trmx_eq0.
by rewrite uE trmx_mul trmxK [M *m _]mulmxA mulmx_coker mul0mx mulmx0.
Qed.

(* Proposition 7.7 (a): a causal attention matrix is invertible. *)
Theorem causal_invertible (F : fieldType) n (P : 'M[F]_n) :
  (forall i j : 'I_n, (i < j)%N -> P i j = 0) -> (forall i, P i i != 0) -> P \in unitmx.
Proof.
move=> mask diag; have trig : is_trig_mx P by apply/is_trig_mxP.
by rewrite unitmxE (det_trig trig) unitfE; apply/prodf_neq0 => i _.
Qed.
End Partial.

(* Proposition 7.13 *)
Module Vacuous.
Section Vacuous.
Variable F : rcfType.
Variables (n d : nat) (V : 'M[F]_(n, d)) (t eps s : F) (p : 'rV[F]_n).
Hypotheses (tV : spectral_norm V t) (e0 : 0 < eps) (s0 : 0 <= s).
(* The inequality (7.2) for an output, in row i; p is P_i. *)
Definition bound (out : 'rV[F]_d) := norm (out - p *m V) <= eps * norm p * t.
(* Proposition 7.13 (A bound that zero meets), first sentence. *)
Theorem zero_meets : bound 0 <-> norm (p *m V) <= eps * norm p * t.
Proof.
rewrite /bound sub0r; have -> // : norm (- (p *m V)) = norm (p *m V).
by congr (Num.sqrt _); apply: eq_bigr => i _; apply: eq_bigr => c _; rewrite mxE sqrrN.
Qed.
(* Step 1. |V|_F^2 <= d |V|_2^2. *)
Lemma frobenius : sqnorm V <= d%:R * t ^+ 2.
Proof.
have [[t0 up] _] := tV; rewrite /sqnorm exchange_big /=.
rewrite -[d in X in _ <= X]card_ord mulr_natl -sumr_const; apply: ler_sum => c _.
have := up (delta_mx c 0); rewrite -colE /sqnorm; under eq_bigr do rewrite big_ord1 mxE.
have -> : \sum_i \sum_(c0 < 1) (delta_mx c 0 : 'cV[F]_d) i c0 ^+ 2 = 1.
  rewrite (bigD1 c) //= big_ord1 mxE !eqxx expr1n big1 ?addr0 // => i /negbTE ic.
  by rewrite big_ord1 mxE ic expr0n.
by rewrite mulr1.
Qed.
(* Proposition 7.13, second sentence, (7.11): s is the largest value over the root mean square. *)
Theorem diffuse : (0 < n)%N -> (forall j, 0 <= p 0 j) -> \sum_j p 0 j = 1 ->
  (forall j, norm (row j V) <= s * (norm V / Num.sqrt n%:R)) ->
  s ^+ 2 * d%:R / eps ^+ 2 <= n%:R * norm p ^+ 2 -> bound 0.
Proof.
move=> n0 p0 p1 len flat; apply/zero_meets; have [[t0 _] _] := tV.
have nR : 0 < n%:R :> F by rewrite ltr0n.
have rhs0 : 0 <= eps * norm p * t by rewrite !mulr_ge0 ?sqrtr_ge0 ?(ltW e0).
have lhs : norm (p *m V) ^+ 2 = sqnorm (p *m V) by rewrite sqr_sqrtr ?sq_ge0.
rewrite -ler_sqr ?nnegrE ?sqrtr_ge0 // lhs !exprMn.
(* Jensen: |p V|^2 <= sum_j p_j |V_j|^2 <= s^2 |V|_F^2 / n *)
have each j : sqnorm (row j V) <= s ^+ 2 * (sqnorm V / n%:R).
  have := len j; rewrite -ler_sqr ?nnegrE ?mulr_ge0 ?invr_ge0 ?sqrtr_ge0 // !exprMn exprVn
    !sqr_sqrtr ?sq_ge0 ?ler0n //.
have jensen : sqnorm (p *m V) <= s ^+ 2 * (sqnorm V / n%:R).
  rewrite -[X in _ <= X]mul1r -[X in _ <= X * _]p1 mulr_suml.
  apply: (@le_trans _ _ (\sum_j p 0 j * sqnorm (row j V))); last first.
 apply: ler_sum => j _; apply: ler_wpmul2l; first exact: p0.
exact: each.

  rewrite /sqnorm big_ord1; under [X in _ <= X]eq_bigr do rewrite big_ord1 mulr_sumr.
  rewrite exchange_big; apply: ler_sum => c _ /=.
  pose m := (p *m V) 0 c; have mE : m = \sum_j p 0 j * V j c by rewrite /m mxE.
  have : 0 <= \sum_j p 0 j * (V j c - m) ^+ 2 by apply: sumr_ge0 => j _; rewrite mulr_ge0
    ?sqr_ge0.
  have -> : \sum_j p 0 j * (V j c - m) ^+ 2 = \sum_j p 0 j * V j c ^+ 2 - m ^+ 2.
    transitivity (\sum_j (p 0 j * V j c ^+ 2 - (p 0 j * V j c) * (m *+ 2) + p 0 j * m ^+ 2)).
      by apply: eq_bigr => j _; rewrite sqrrB mulrDr mulrBr !mulrnAr !mulrA.
    rewrite big_split sumrB /= -!mulr_suml -mE p1 mul1r mulrnAr -expr2 mulr2n opprD addrA addrNK
      //.
  rewrite subr_ge0 => h; apply: le_trans h _; rewrite le_eqVlt; apply/orP; left; apply/eqP.
  by apply: eq_bigr => j _; rewrite mxE.
apply: le_trans jensen _; apply: (@le_trans _ _ (s ^+ 2 * (d%:R * t ^+ 2 / n%:R))).
  by rewrite ler_wpmul2l ?sqr_ge0 // ler_wpmul2r ?invr_ge0 ?ler0n // frobenius.
have e2 : 0 < eps ^+ 2 by rewrite exprn_gt0.
move: flat; rewrite ler_pdivr_mulr // => fl.
have h := ler_wpmul2r (sqr_ge0 t) fl.
rewrite !mulrA ler_pdivr_mulr //; move: h; rewrite !expr2 !mulrA => h; apply: le_trans h _.
by rewrite le_eqVlt; apply/orP; left; apply/eqP; rewrite [LHS](ACl (4*5*2*3*6*7*1)).
Qed.
End Vacuous.

(* Instance: one token of value 1, spectral norm 1, p = 1, s = 1, eps = 1. *)
Example one_token (F : rcfType) : spectral_norm (1%:M : 'M[F]_1) 1.
Proof.
split=> [|t [t0 up]]; first by split=> [|x]; rewrite ?ler01 // mul1mx expr1n mul1r.
have := up (const_mx 1); rewrite mul1mx /sqnorm !big_ord1 mxE expr1n mulr1 => t2.
by rewrite -ler_sqr ?nnegrE ?ler01 // expr1n.
Qed.
End Vacuous.

(* Proposition 7.14 *)
Module NoCausalForm.
Section Causal.
Variable F : realFieldType.
Variables (ex : F -> F) (ln : F -> F) (c : F).
Hypotheses (ex_gt0 : forall x, 0 < ex x) (lnK : forall x, 0 < x -> ex (ln x) = x) (c0 : c != 0).
(* Softmax is with a positive function ex that takes every positive value; c stands for sqrt(d). *)
Variables (n k d dv : nat).
(* Definition 7.1 (Linformer attention); G is the F of the page. *)
Definition linformer (E G : 'M[F]_(k, n)) (Q K : 'M[F]_(n, d)) (V : 'M[F]_(n, dv)) : 'M[F]_(n,
  dv) :=
  softmax_rows ex (c^-1 *: (Q *m (E *m K)^T)) *m (G *m V).
(* Row i of the output does not depend on V_j for j > i, whatever Q and K are. *)
Definition causal_row (E G : 'M[F]_(k, n)) (i : 'I_n) := forall (Q K : 'M[F]_(n, d)) (V V' :
  'M[F]_(n, dv)),
  (forall j : 'I_n, (j <= i)%N -> row j V = row j V') -> row i (linformer E G Q K V) = row i
    (linformer E G Q K V').

(* Step 1. As E has independent rows, every positive p that sums to one is the row of weights of
   some Q and K. *)
Lemma any_weights (E : 'M[F]_(k, n)) (p : 'I_k -> F) : row_free E -> (0 < d)%N -> (forall a, 0 <
  p a) -> \sum_a p a = 1 ->
  exists Q K : 'M[F]_(n, d), forall i a, softmax_rows ex (c^-1 *: (Q *m (E *m K)^T)) i a = p a.
Proof.
move=> Ef d0 p0 p1; pose o := Ordinal d0.
exists (\matrix_(i, j) (c *+ (j == o))), (pinvmx E *m \matrix_(a, j) (ln (p a) *+ (j == o))) => i
  a.
rewrite mulmxA; have -> : E *m pinvmx E = 1%:M.
  have := mulmxKpV (submx_refl E); rewrite -[X in _ = X]mul1mx; exact: row_free_inj.
rewrite mul1mx softmax_rowsE.
have e b : ex ((c^-1 *: (\matrix_(i, j) (c *+ (j == o)) *m (\matrix_(a, j) (ln (p a) *+ (j ==
  o)))^T)) i b) = p b.
  rewrite mxE mxE (bigD1 o) //= !mxE eqxx big1 ?addr0 => [|j /negbTE jo]; last by rewrite !mxE jo
    mul0r.
  by rewrite mulrA mulVf // mul1r lnK.
by rewrite (eq_bigr _ (fun l _ => e l)) e p1 divr1.
Qed.

(* Proposition 7.14 (No causal form): the columns j > i of F are zero. Positive weights span:
   uniform ones, and ones with twice the weight on a. *)
Theorem causal (E G : 'M[F]_(k, n)) (i : 'I_n) : row_free E -> (0 < d)%N -> (0 < dv)%N ->
  causal_row E G i ->
  forall (j : 'I_n) a, (i < j)%N -> G a j = 0.
Proof.
move=> Ef d0 dv0 ca j a ij; pose o := Ordinal dv0.
have dep p : (forall a, 0 < p a) -> \sum_a p a = 1 -> \sum_b p b * G b j = 0.
  move=> p0 p1; have [Q [K w]] := any_weights Ef d0 p0 p1.
  pose V : 'M[F]_(n, dv) := \matrix_(l, s) ((l == j) && (s == o))%:R.
  have : row i (linformer E G Q K V) = row i (linformer E G Q K 0).
    apply: ca => l li; apply/rowP => s; rewrite !mxE; case: eqP => // lj; by rewrite -lj ltnNge
      li in ij.
  move/rowP/(_ o); rewrite /linformer !mulmx0 [RHS]mxE [RHS]mxE [LHS]mxE [LHS]mxE => h; rewrite
    -[RHS]h.
  apply: eq_bigr => b _; rewrite w; congr (_ * _); rewrite mxE (bigD1 j) //= mxE !eqxx mulr1 big1
    ?addr0 // => l /negbTE lj.
  by rewrite mxE lj mulr0.
have k0 : (0 < k)%N by exact: leq_ltn_trans (ltn_ord a).
(* uniform weights, and weights that put twice as much on a *)
pose N : F := k%:R; have N0 : 0 < N by rewrite ltr0n.
have N1 : 0 < N + 1 by rewrite addr_gt0 ?ltr01.
have s1 : \sum_b G b j = 0.
  have : \sum_(b < k) N^-1 * G b j = 0.
    apply: dep => [b|]; first by rewrite invr_gt0.
    by rewrite sumr_const card_ord -[_ *+ k]mulr_natl divff ?gt_eqF.
  by rewrite -mulr_sumr => /eqP; rewrite mulf_eq0 invr_eq0 gt_eqF //= => /eqP.
have : \sum_b (N + 1)^-1 * (1 + (b == a)%:R) * G b j = 0.
  apply: dep => [b|]; first by rewrite mulr_gt0 ?invr_gt0 // ltr_paddr ?ltr01 ?ler0n.
  rewrite -mulr_sumr big_split /= sumr_const card_ord (bigD1 a) //= eqxx big1 => [|b /negbTE ->
    //].
  by rewrite addr0 mulVf // gt_eqF.
under eq_bigr do rewrite -mulrA mulrDl mul1r.
rewrite -mulr_sumr big_split /= s1 add0r (bigD1 a) //= eqxx mul1r big1 => [|b /negbTE ->]; last
  by rewrite mul0r.
by rewrite addr0 => /eqP; rewrite mulf_eq0 invr_eq0 gt_eqF //= => /eqP.
Qed.
(* Proposition 7.14, second sentence: every output is a multiple of the first value. *)
Theorem all_rows (E G : 'M[F]_(k, n)) (o : 'I_n) : nat_of_ord o = 0%N -> row_free E -> (0 < d)%N
  -> (0 < dv)%N -> (forall i, causal_row E G i) ->
  forall Q K V i, exists t, row i (linformer E G Q K V) = t *: row o V.
Proof.
move=> oE Ef d0 dv0 ca Q K V i.
have G0 a (j : 'I_n) : j != o -> G a j = 0.
  by move=> jo; apply: (causal Ef d0 dv0 (ca o)); rewrite oE lt0n; apply: contra jo => /eqP j0;
    apply/eqP/val_inj; rewrite /= j0 oE.
exists (\sum_a softmax_rows ex (c^-1 *: (Q *m (E *m K)^T)) i a * G a o).
apply/rowP => s; rewrite mxE [LHS]mxE mxE mulr_suml; apply: eq_bigr => a _; rewrite -mulrA mxE;
  congr (_ * _).
by rewrite mxE [row o V 0 s]mxE (bigD1 o) //= big1 ?addr0 // => j /G0 ->; rewrite mul0r.
Qed.
End Causal.
End NoCausalForm.

(* The identity is a causal matrix with a diagonal that is nowhere 0. *)
Example causal_invertible_met (F : fieldType) n : (1%:M : 'M[F]_n) \in unitmx.
Proof.
apply: Partial.causal_invertible => [i j ij|i]; rewrite mxE ?eqxx ?oner_eq0 //.
by rewrite -val_eqE ltn_eqF.
Qed.
