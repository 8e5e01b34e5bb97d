(* Chapter 14, page one_layer_memorization/boltzmann_and_hardmax.
   boltzmann.operator, .gap (the identity), .hardmax, .before, .exact, .ids, .repeated, .near-miss.
   Plain mathcomp has no real exponential: R is any ordered field with functions exp and ln that
   have the properties listed where they are used; the real numbers are an instance of each list. *)
From mathcomp Require Import all_ssreflect all_algebra.
Require Import identities.
Set Implicit Arguments.
Unset Strict Implicit.
Import Order.TTheory GRing.Theory Num.Theory.
Local Open Scope ring_scope.

(* ---- Proposition 14.2 (Log-sum-exp minus entropy) ---- *)
Section Operator.
(* exp and ln as the proof uses them; the real functions are an instance. *)
Variables (R : realFieldType) (exp ln : R -> R).
Hypothesis expD : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_gt0 : forall x, 0 < exp x.
Hypothesis exp_ge : forall x, 1 + x <= exp x.
Hypothesis lnK : forall y, 0 < y -> exp (ln y) = y.
Hypothesis expK : forall x, ln (exp x) = x.
Variable N : nat.                                                      (* n = N + 1 numbers *)
Definition Z (a : 'I_N.+1 -> R) := \sum_i exp (a i).
Definition p (a : 'I_N.+1 -> R) i := exp (a i) / Z a.                  (* softmax *)
Definition boltz a := \sum_i a i * p a i.                              (* (14.1) *)
Definition S (q : 'I_N.+1 -> R) := - \sum_i q i * ln (q i).            (* entropy *)

Lemma Z_gt0 a : 0 < Z a.
Proof.
by rewrite /Z (bigD1 ord0) //= ltr_paddr // sumr_ge0 // => i _; apply: ltW.
Qed.
Lemma p_sum a : \sum_i p a i = 1.
Proof. by rewrite -mulr_suml mulfV // gt_eqF // Z_gt0. Qed.

(* (14.3), first line: multiply ln p_i = a_i - ln Z by p_i and add up. *)
Theorem log_sum_exp a : boltz a = ln (Z a) - S (p a).
Proof.
have lnp i : ln (p a i) = a i - ln (Z a).
  rewrite -[RHS]expK; congr ln; rewrite /p; apply: (mulIf (lt0r_neq0 (Z_gt0 a))).
  by rewrite divfK ?lt0r_neq0 ?Z_gt0 // -{2}(lnK (Z_gt0 a)) -expD subrK.
rewrite /S opprK -[ln (Z a)]mulr1 -(p_sum a) mulr_sumr -big_split /=.
by apply: eq_bigr => i _; rewrite lnp; ident.
Qed.

(* (14.3), second line; omega e^omega = (n - 1) / e. *)
Variable omega : R.
Hypothesis omegaE : omega * exp omega = N%:R / exp 1.
Theorem drop a (i0 : 'I_N.+1) : (forall i, a i <= a i0) ->
  a i0 - omega <= boltz a /\ boltz a <= a i0.
Proof.
move=> max; have Z0 := Z_gt0 a.
have bE : boltz a = (\sum_i a i * exp (a i)) / Z a.
  by rewrite mulr_suml; apply: eq_bigr => i _; rewrite mulrA.
rewrite bE ler_pdivl_mulr // ler_pdivr_mulr //; split; last first.
  by rewrite /Z mulr_sumr; apply: ler_sum => i _; rewrite ler_wpmul2r // ltW.
(* (M - a_i - omega) e^(a_i) <= e^(M - 1 - omega), from 1 + y <= e^y. *)
set M := a i0; have term i : (M - a i - omega) * exp (a i) <= exp (M - 1 - omega).
  have -> : M - 1 - omega = (M - 1 - omega - a i) + a i by rewrite subrK.
  rewrite expD ler_wpmul2r ?(ltW (exp_gt0 _)) //.
  by have -> : M - a i - omega = 1 + (M - 1 - omega - a i) by ident.
rewrite -subr_le0 /Z mulr_sumr -sumrB (bigD1 i0) //= -/M.
have -> : (M - omega) * exp M - M * exp M = - (omega * exp M) by ident.
rewrite addrC subr_le0; apply: le_trans (_ : \sum_(i < N.+1 | i != i0) exp (M - 1 - omega) <= _).
  by apply: ler_sum => i _; apply: le_trans (term i); rewrite le_eqVlt; apply/orP; left;
    apply/eqP; ident.
(* Together (n - 1) e^(M - 1 - omega) = omega e^M. *)
rewrite sumr_const cardC1 card_ord /= -mulr_natl.
have -> : N%:R = omega * exp omega * exp 1 by rewrite omegaE divfK // lt0r_neq0.
by rewrite -!mulrA -!expD; have -> : omega + (1 + (M - 1 - omega)) = M by ident.
Qed.

(* The lower bound is attained: one entry 0, the others - omega - 1; the upper by equal entries. *)
Theorem drop_attained : exists a : 'I_N.+1 -> R,
  (forall i, a i <= a ord0) /\ boltz a = a ord0 - omega.
Proof.
have om0 : 0 <= omega.
  rewrite -(ler_pmul2r (exp_gt0 omega)) mul0r omegaE divr_ge0 ?ler0n // ltW //.
pose a (i : 'I_N.+1) := if i == ord0 then 0 else - (1 + omega).
have aN i : i != ord0 -> a i = - (1 + omega) by rewrite /a => /negbTE ->.
exists a; split=> [i|].
  rewrite /a eqxx; case: (i == ord0); first exact: lexx.
  by rewrite oppr_le0 addr_ge0 ?ler01.
have e0 : exp 0 = 1.
  by apply: (mulIf (lt0r_neq0 (exp_gt0 0))); rewrite -expD mul1r addr0.
(* (n - 1) e^(-1 - omega) = omega, so the average is - omega (1 + omega) / (1 + omega). *)
have tail : N%:R * exp (- (1 + omega)) = omega.
  have -> : N%:R = omega * exp omega * exp 1 by rewrite omegaE divfK // lt0r_neq0.
  rewrite -!mulrA -!expD; have -> : omega + (1 + - (1 + omega)) = 0 by ident.
  by rewrite e0 mulr1.
have ZE : Z a = 1 + omega.
  rewrite /Z (bigD1 ord0) //= {1}/a eqxx e0; congr (1 + _).
  by rewrite (eq_bigr _ (fun i h => congr1 exp (aN i h))) sumr_const cardC1 card_ord /= -mulr_natl.
have a0 : a ord0 = 0 by rewrite /a eqxx.
rewrite a0 sub0r /boltz (bigD1 ord0) //= a0 mul0r add0r.
rewrite (eq_bigr (fun _ => - (1 + omega) * (exp (- (1 + omega)) / (1 + omega)))) => [|i ne];
  last first.
  by rewrite /p ZE aN.
rewrite sumr_const cardC1 card_ord /= -mulr_natl.
have om1 : 1 + omega != 0 by rewrite gt_eqF // (lt_le_trans ltr01) // ler_addl.
transitivity (- (N%:R * exp (- (1 + omega))) * ((1 + omega) / (1 + omega))); first by ident.
by rewrite tail mulfV // mulr1.
Qed.
Theorem top_attained c : boltz (fun _ => c) = c.
Proof. by rewrite /boltz -mulr_sumr p_sum mulr1. Qed.
End Operator.

(* ---- Theorem 14.7 (Hardmax) ---- *)
Section Hardmax.
Variables (R : realFieldType) (d m : nat).

(* One head: scores of a query against the keys; the values whose score is largest are averaged. *)
Record head := Head { WQ : 'M[R]_(d, m); bQ : 'rV[R]_m; WK : 'M[R]_(d, m); bK : 'rV[R]_m;
                      WV : 'M[R]_d; bV : 'rV[R]_d }.
Definition score h (q x : 'rV[R]_d) : R := ((q *m WQ h + bQ h) *m (x *m WK h + bK h)^T) 0 0.
Definition winners h q (X : seq 'rV[R]_d) := [seq x <- X | all (fun y => score h q y <= score h q
  x) X].
Definition mean (X : seq 'rV[R]_d) : 'rV[R]_d := (size X)%:R^-1 *: \sum_(x <- X) x.
Definition attend h q X := mean [seq x *m WV h + bV h | x <- winners h q X].
Definition layer (skip : bool) hs q X := (if skip then q else 0) + \sum_(h <- hs) attend h q X.

Variables (x0 l : 'rV[R]_d).
Definition x (k : nat) := x0 + k%:R *: l.
Definition X1 := map x [:: 1; 2; 5; 6]%N.
Definition X2 := map x [:: 1; 3; 4; 6]%N.

(* The score of x k against a fixed query is affine in k. *)
Definition slope h q := ((q *m WQ h + bQ h) *m (l *m WK h)^T) 0 0.
Lemma score_diff h q i j : score h q (x i) - score h q (x j) = (i%:R - j%:R) * slope h q.
Proof.
have E k : x k *m WK h + bK h = x0 *m WK h + bK h + k%:R *: (l *m WK h).
  by rewrite mulmxDl -scalemxAl addrAC.
rewrite /score /slope !E; move: (_ + bQ h) (_ + bK h) (l *m _) => p u v.
by rewrite !linearD !linearZ /= !mxE opprD addrACA subrr add0r -mulrBl.
Qed.
Lemma score_le h q i j : (score h q (x i) <= score h q (x j)) = (0 <= (j%:R - i%:R) * slope h q).
Proof. by rewrite -score_diff subr_ge0. Qed.
(* So the order of the keys depends on the sign of the slope alone. *)
Definition cmp h q (i j : nat) := if slope h q == 0 then true else if 0 < slope h q then (i <=
  j)%N else (j <= i)%N.
Lemma score_le_nat h q i j : (score h q (x i) <= score h q (x j)) = cmp h q i j.
Proof.
rewrite score_le /cmp; case: ltrgt0P => [s0|s0|->]; last by rewrite mulr0 lexx.
  by rewrite pmulr_lge0 // subr_ge0 ler_nat.
by rewrite nmulr_lge0 // subr_le0 ler_nat.
Qed.
Lemma winnersE h q ks : winners h q (map x ks) = map x [seq k <- ks | all (cmp h q ^~ k) ks].
Proof.
rewrite /winners filter_map; congr (map _ _); apply: eq_filter => k /=.
by rewrite all_map; apply: eq_all => j /=; rewrite score_le_nat.
Qed.

(* Theorem 14.7. Any number of heads hs of any rank, any weights and biases, with or without skip,
   ties averaged, no mask; q is x(1), x(6) or any other query. *)
Theorem hardmax skip hs q : layer skip hs q X1 = layer skip hs q X2.
Proof.
congr (_ + _); apply: eq_bigr => h _; rewrite /attend /X1 /X2 !winnersE /= /cmp.
case: eqP => _; last by case: (0 < _).
pose c := x0 *m WV h + bV h; pose s := l *m WV h.
have sum ks : \sum_(y <- [seq y *m WV h + bV h | y <- map x ks]) y = c *+ size ks + (\sum_(k <-
  ks) k)%:R *: s.
  rewrite !big_map (eq_bigr (fun k : nat => c + k%:R *: s)) => [|k _];
    last by rewrite mulmxDl -scalemxAl addrAC.
  by rewrite big_split /= big_const_seq count_predT iter_addr_0 -scaler_suml -natr_sum.
by rewrite /mean !sum !big_cons !big_nil.
Qed.
End Hardmax.


(* ---- Proposition 14.8 (A network before hardmax) ---- *)
(* Counts below base n + 1 are digits: they are determined by their sum. *)
Lemma digits n K (m m' : 'I_K -> nat) : (forall k, (m k <= n)%N) -> (forall k, (m' k <= n)%N) ->
  (\sum_k m k * n.+1 ^ k = \sum_k m' k * n.+1 ^ k)%N -> m =1 m'.
Proof.
elim: K m m' => [|K IH] m m' mn m'n; first by move=> _ [].
rewrite !big_ord_recl !muln1.
have tail f : (\sum_(i < K) f (lift ord0 i) * n.+1 ^ lift ord0 i =
               (\sum_(i < K) f (lift ord0 i) * n.+1 ^ i) * n.+1)%N.
  by rewrite big_distrl; apply: eq_bigr => i _; rewrite /= /bump add1n expnSr mulnA.
rewrite !tail => eq1; have eq0 : m ord0 = m' ord0.
  move: (congr1 (modn^~ n.+1) eq1).
  by rewrite /= !(addnC _ (_ * _)%N) !modnMDl !modn_small // ltnS.
have eqt : m \o lift ord0 =1 m' \o lift ord0.
  apply: IH => [k|k|] /=; rewrite ?mn ?m'n //.
  by apply/eqP; move/eqP: eq1; rewrite eq0 eqn_add2l eqn_pmul2r.
by move=> k; have [j ->|->] := unliftP ord0 k; [apply: eqt | apply: eq0].
Qed.

Lemma sum_count K (F : nat -> nat) s : all (ltn^~ K) s ->
  (\sum_(x <- s) F x = \sum_(k < K) count_mem (k : nat) s * F k)%N.
Proof.
elim: s => [|x s IH] /=; first by rewrite big_nil big1.
case/andP=> xK /IH {}IH; rewrite big_cons IH.
under [RHS]eq_bigr do rewrite mulnDl; rewrite big_split /=; congr (_ + _)%N.
rewrite (bigD1 (Ordinal xK)) //= eqxx mul1n big1 ?addn0 // => k.
by rewrite -val_eqE /= eq_sym => /negbTE ->.
Qed.

Section Before.
Variables (R : realFieldType) (n m : nat) (h : head R 1 m).
Hypothesis WK0 : WK h = 0.                                    (* so all keys tie *)
Hypothesis WV1 : WV h = 1%:M.                                 (* W_V W_O = 1 *)
Definition code k : 'rV[R]_1 := (n.+1 ^ k)%:R%:M.             (* token k becomes (n + 1)^k *)

Lemma all_tie q X : winners h q X = X.
Proof.
apply/all_filterP/allP => x _; apply/allP => y _.
by rewrite /score WK0 !mulmx0.
Qed.

Lemma attend_sum q a : size a = n -> attend h q (map code a) =
  n%:R^-1 *: ((\sum_(k <- a) n.+1 ^ k)%N%:R%:M + bV h *+ n).
Proof.
move=> sa; rewrite /attend all_tie /mean !size_map sa; congr (_ *: _).
rewrite !big_map (eq_bigr (fun k => code k + bV h)) => [|k _]; last by rewrite WV1 mulmx1.
rewrite big_split /= big_const_seq count_predT iter_addr_0 sa; congr (_ + _).
rewrite /code natr_sum; elim: a {sa} => [|k a IH]; first by rewrite !big_nil raddf0.
by rewrite !big_cons IH raddfD.
Qed.

Lemma same_sum q q' a b : size a = n -> size b = n ->
  attend h q (map code a) = attend h q' (map code b) -> perm_eq a b.
Proof.
move=> sa sb; rewrite !attend_sum //.
have [n0|n0] := posnP n; first by rewrite n0 in sa sb *; rewrite (size0nil sa) (size0nil sb).
have inv : n%:R^-1 != 0 :> R by rewrite invr_eq0 pnatr_eq0 -lt0n.
move/(scalerI inv)/addIr => e; have {e} : (\sum_(k <- a) n.+1 ^ k = \sum_(k <- b) n.+1 ^ k)%N.
  apply/eqP; rewrite -(eqr_nat R); apply/eqP.
  by have /(congr1 (fun A : 'rV[R]_1 => A 0 0)) := e; rewrite !mxE eqxx !mulr1n.
pose K := (\max_(k <- a ++ b) k).+1.
have below s : {subset s <= a ++ b} -> all (ltn^~ K) s.
  by move=> sub; apply/allP => k /sub ks; rewrite /= /K ltnS (big_rem _ ks) /= leq_maxl.
have [ka kb] : all (ltn^~ K) a /\ all (ltn^~ K) b.
  by split; apply: below => k ks; rewrite mem_cat ks ?orbT.
rewrite (sum_count _ ka) (sum_count _ kb) => e.
have eqc := digits _ _ e; apply/allP => k kab /=; apply/eqP.
have kK : (k < K)%N by have /allP := below _ (fun k h => h); apply.
by apply: (eqc _ _ (Ordinal kK)) => i; [rewrite -sa count_size | rewrite -sb count_size].
Qed.

(* Proposition 14.8, without skip: different multisets of n tokens have different outputs. *)
Theorem before q q' a b : size a = n -> size b = n ->
  layer false [:: h] q (map code a) = layer false [:: h] q' (map code b) -> perm_eq a b.
Proof. by move=> sa sb; rewrite /layer !big_seq1 !add0r; apply: same_sum. Qed.
(* With skip, at one and the same query token q. *)
Theorem before_skip q a b : size a = n -> size b = n ->
  layer true [:: h] q (map code a) = layer true [:: h] q (map code b) -> perm_eq a b.
Proof. by move=> sa sb; rewrite /layer !big_seq1 => /addrI; apply: same_sum. Qed.
End Before.

(* An instance: the head with these weights and no biases. *)
Fact before_instance (R : realFieldType) : exists h : head R 1 1, WK h = 0 /\ WV h = 1%:M.
Proof. by exists (Head 0 0 0 0 1%:M 0). Qed.

(* ---- Proposition 14.6 (The gap as a sum): the identity (14.10), with E k for e^(s z_k) ---- *)
Section Gap.
Variable R : comRingType.
Theorem gap n (m m' z E : 'I_n -> R) :
  let P := \sum_k m k * E k in let P' := \sum_k m' k * E k in
  (\sum_k m k * z k * E k) * P' - (\sum_k m' k * z k * E k) * P =
  \sum_(i < n) \sum_(j < n | (i < j)%N) (m i * m' j - m j * m' i) * (z i - z j) * (E i * E j).
Proof.
move=> P P'; rewrite ![in LHS]mulr_suml -sumrB.
pose a (i j : 'I_n) := m i * z i * E i * (m' j * E j) - m' i * z i * E i * (m j * E j).
transitivity (\sum_i \sum_j a i j).
  by apply: eq_bigr => i _; rewrite !mulr_sumr -sumrB.
have split (f : 'I_n -> 'I_n -> R) : (forall i, f i i = 0) ->
    \sum_i \sum_j f i j = \sum_(i < n) \sum_(j < n | (i < j)%N) (f i j + f j i).
  move=> f0; under [RHS]eq_bigr do rewrite big_split;
    rewrite big_split /= [X in _ + X](exchange_big_dep predT) //=.
  rewrite -big_split /=; apply: eq_bigr => i _; rewrite (bigID (fun j : 'I_n => (i < j)%N)) /=;
    congr (_ + _).
  rewrite (bigID (fun j : 'I_n => (j < i)%N)) /= [X in _ + X]big1 ?addr0 => [|j].
    by apply: eq_bigl => j; rewrite -leqNgt andbC; case: ltngtP.
  by rewrite -!leqNgt => /andP[ji ij]; rewrite (_ : j = i) ?f0 //; apply/val_inj/anti_leq/andP.
rewrite split => [|i]; last by rewrite /a; ident.
by apply: eq_bigr => i _; apply: eq_bigr => j _; rewrite /a; ident.
Qed.
End Gap.


(* ---- Exponentials of algebraic numbers: Theorems 14.9 and 14.10, Proposition 14.11 ---- *)
Section Lindemann.
(* The real numbers as the theorems use them: R an ordered field, exp takes sums to products and
   is positive, alg the (ring of) algebraic numbers of R. *)
Variables (R : realFieldType) (alg : R -> Prop) (exp : R -> R).
Hypothesis expD : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_gt0 : forall x, 0 < exp x.
Hypothesis alg_nat : forall n : nat, alg n%:R.
Hypothesis algB : forall x y, alg x -> alg y -> alg (x - y).
Hypothesis algM : forall x y, alg x -> alg y -> alg (x * y).
(* The theorem of Lindemann and Weierstrass: for different algebraic numbers u_i the e^(u_i) are
   linearly independent over the algebraic numbers. *)
Definition Lindemann_Weierstrass := forall n (u c : 'I_n -> R), injective u ->
  (forall i, alg (u i)) -> (forall i, alg (c i)) -> \sum_i c i * exp (u i) = 0 ->
  forall i, c i = 0.
Hypothesis LW : Lindemann_Weierstrass.

Lemma algD x y : alg x -> alg y -> alg (x + y).
Proof.
move=> ax ay; have -> : x + y = x - (0%:R - y) by rewrite sub0r opprK.
by apply: algB => //; apply: algB.
Qed.
Lemma alg_sum (I : finType) (P : pred I) (c : I -> R) :
  (forall i, alg (c i)) -> alg (\sum_(i | P i) c i).
Proof.
move=> ac; elim/big_rec: _ => [|i x _ ax]; first by apply: (alg_nat 0).
exact: algD.
Qed.

(* Lindemann and Weierstrass for terms with equal exponents: every group has coefficient zero. *)
Lemma groups (I : finType) (u c : I -> R) : (forall i, alg (u i)) -> (forall i, alg (c i)) ->
  \sum_i c i * exp (u i) = 0 -> forall v, \sum_(i | u i == v) c i = 0.
Proof.
move=> au ac sum0 v; pose l := undup [seq u i | i <- enum I].
have inl i : u i \in l by rewrite mem_undup map_f ?mem_enum.
have [vl|vl] := boolP (v \in l); last first.
  by rewrite big1 // => i /eqP uv; rewrite -uv inl in vl.
pose w (k : 'I_(size l)) := l`_k; pose g k := \sum_(i | u i == w k) c i.
have wI : injective w.
  by move=> k k' /eqP; rewrite nth_uniq ?undup_uniq // => /eqP/val_inj.
have aw k : alg (w k).
  have : w k \in l by rewrite mem_nth.
  by rewrite mem_undup => /mapP[i _ ->].
have ag k : alg (g k) by apply: alg_sum.
have vk : (index v l < size l)%N by rewrite index_mem.
have <- : w (Ordinal vk) = v by rewrite /w /= nth_index.
apply: (LW wI aw ag); rewrite -[RHS]sum0.
rewrite (partition_big (fun i => Ordinal (etrans (index_mem _ _) (inl i))) predT) //=.
apply: eq_bigr => k _; rewrite /g mulr_suml.
have same i : (u i == w k) = (Ordinal (etrans (index_mem _ _) (inl i)) == k).
  apply/eqP/eqP => [e|<-]; last by rewrite /w /= nth_index.
  by apply: val_inj; rewrite /= e /w index_uniq ?undup_uniq.
rewrite (eq_bigl _ _ same) [RHS](eq_bigl _ _ (fun i => esym (same i))).
by rewrite (eq_bigl _ _ (fun i => esym (same i))); apply: eq_bigr => i /eqP ->.
Qed.

(* Multisets: counts m k of different values z k. (14.2): the softmax average of them. *)
Variables (K : nat) (z : 'I_K -> R).
Hypothesis zI : injective z.
Hypothesis az : forall k, alg (z k).
Definition mass (m : 'I_K -> nat) s := \sum_k (m k)%:R * exp (s * z k).
Definition f (m : 'I_K -> nat) s := (\sum_k (m k)%:R * (z k * exp (s * z k))) / mass m s.

Lemma mass_gt0 m s k : (0 < m k)%N -> 0 < mass m s.
Proof.
move=> mk; rewrite /mass (bigD1 k) //= ltr_paddr //.
  by rewrite sumr_ge0 // => i _; rewrite mulr_ge0 ?ler0n // ltW.
by rewrite mulr_gt0 ?ltr0n.
Qed.

(* A largest value of e among the tokens of a predicate. *)
Lemma top (e : 'I_K -> R) (P : pred 'I_K) k0 : P k0 ->
  exists k, P k /\ forall i, P i -> e i <= e k.
Proof. by move=> Pk; case: (@arg_maxP _ _ _ k0 P e Pk) => k Pk' max; exists k. Qed.

(* If all groups of (14.10) vanish, the counts are proportional. No function theory is needed:
   compare the largest exponents. *)
Lemma proportional (m m' : 'I_K -> nat) k0 k1 : (0 < m k0)%N -> (0 < m' k1)%N ->
  (forall v, \sum_(p : 'I_K * 'I_K | z p.1 + z p.2 == v)
     (m p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2) = 0) ->
  forall i j, (m i * m' j = m j * m' i)%N.
Proof.
move=> mk0 mk1 zero.
have [A [mA maxA]] := top z (P := fun k => (0 < m k)%N) mk0.
have [B [mB maxB]] := top z (P := fun k => (0 < m' k)%N) mk1.
(* The largest exponent z_A + z_B has one term, so A = B. *)
have AB : A = B.
  have := zero (z A + z B); rewrite (bigD1 (A, B)) //= big1 ?addr0.
    move/eqP; rewrite !mulf_eq0 !pnatr_eq0 !gtn_eqF //= subr_eq0 => /eqP; exact: zI.
  case=> i j /= /andP[/eqP e ne].
  have [mi|mi] := posnP (m i); first by rewrite mi !mul0r.
  have [mj|mj] := posnP (m' j); first by rewrite mj mulr0 mul0r.
  have zi := maxA i mi; have zj := maxB j mj.
  have iA : i = A.
    apply: zI; apply/eqP; rewrite eq_le zi -(ler_add2r (z B)) -e ler_add2l zj //.
  rewrite iA in e; move/addrI: e => /zI jB; by rewrite iA jB eqxx in ne.
rewrite -{B}AB in mB maxB *.
(* d = m'_A m - m_A m'. Its largest value, if any, lies below z_A. *)
pose d i : R := (m' A)%:R * (m i)%:R - (m A)%:R * (m' i)%:R.
suff d0 i : d i = 0.
  have nat i : (m' A * m i = m A * m' i)%N.
    by apply/eqP; rewrite -(eqr_nat R) !natrM -subr_eq0; apply/eqP/d0.
  move=> i j; apply/eqP; rewrite -(eqn_pmul2l mB) -(eqn_pmul2l mA) !(mulnA (m' A)) !nat.
  by rewrite -!mulnA [(m' i * _)%N]mulnC.
apply/eqP; apply: contraT => di; exfalso.
have [C [dC maxC]] := top z (P := fun i => d i != 0) di.
have dA : d A = 0 by rewrite /d mulrC subrr.
have CA : C != A by apply: contraNneq dC => ->; rewrite dA.
pose v := z C + z A.
have anti : \sum_(p : 'I_K * 'I_K | z p.1 + z p.2 == v)
    (m' p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2) = 0.
  set T := \sum_(p | _) _; suff : T = - T.
    by move/eqP; rewrite -subr_eq0 opprK -mulr2n mulrn_eq0 /= => /eqP.
  rewrite {1}/T (reindex_inj (h := fun p : 'I_K * 'I_K => (p.2, p.1))) /=; last first.
    by case=> i1 j1 [i2 j2] [-> ->].
  rewrite -sumrN; apply: eq_big => [p|p _]; first by rewrite addrC.
  by rewrite [(m' p.2)%:R * _]mulrC -mulrN opprB.
(* The exponent z_C + z_A of the difference has one term. *)
have : \sum_(p : 'I_K * 'I_K | z p.1 + z p.2 == v) d p.1 * (m' p.2)%:R * (z p.1 - z p.2) = 0.
  transitivity ((m' A)%:R * (\sum_(p : 'I_K * 'I_K | z p.1 + z p.2 == v)
      (m p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2)) - (m A)%:R * \sum_(p : 'I_K * 'I_K |
      z p.1 + z p.2 == v) (m' p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2)).
    by rewrite !mulr_sumr -sumrB; apply: eq_bigr => p _; rewrite /d; ident.
  by rewrite anti zero !mulr0 subrr.
rewrite (bigD1 (C, A)) //= big1 ?addr0.
  move/eqP; rewrite !mulf_eq0 (negbTE dC) pnatr_eq0 gtn_eqF //= subr_eq0 => /eqP/zI/eqP.
  exact/negP.
case=> i1 j /= /andP[/eqP e ne].
have [-> | di1] := eqVneq (d i1) 0; first by rewrite !mul0r.
have [mj|mj] := posnP (m' j); first by rewrite mj mulr0 mul0r.
have zi := maxC i1 di1; have zj := maxB j mj.
have iC : i1 = C.
  by apply: zI; apply/eqP; rewrite eq_le zi -(ler_add2r (z A)) -/v -e ler_add2l zj.
rewrite iC in e; move/addrI: e => /zI jA; by rewrite iC jA eqxx in ne.
Qed.

(* Theorem 14.9 (Algebraic inverse temperatures). *)
Theorem algebraic_temperatures (m m' : 'I_K -> nat) s :
  (exists k, (0 < m k)%N) -> (exists k, (0 < m' k)%N) -> s != 0 -> alg s ->
  f m s = f m' s <-> forall i j, (m i * m' j = m j * m' i)%N.
Proof.
move=> [k0 mk0] [k1 mk1] s0 sa.
have P0 := gt_eqF (mass_gt0 s mk0); have P1 := gt_eqF (mass_gt0 s mk1).
(* (14.10), without exchanging i and j. *)
have sumE : (f m s == f m' s) = (\sum_(p : 'I_K * 'I_K)
    (m p.1)%:R * (m' p.2)%:R * (z p.1 - z p.2) * exp (s * (z p.1 + z p.2)) == 0).
  rewrite /f eqr_div ?P0 ?P1 // -[LHS]subr_eq0; congr (_ == 0); rewrite /mass.
  rewrite !big_distrlr /= !pair_bigA /=.
  rewrite [X in _ - X](reindex_inj (h := fun p : 'I_K * 'I_K => (p.2, p.1))) /=; last first.
    by case=> i1 j1 [i2 j2] [-> ->].
  by rewrite -sumrB; apply: eq_bigr => p _; rewrite [s * (_ + _)]mulrDr expD; ident.
split=> [/eqP|prop]; last first.
  apply/eqP; rewrite sumE; set T := (X in X == _); have : T = - T.
    rewrite {1}/T (reindex_inj (h := fun p : 'I_K * 'I_K => (p.2, p.1))) /=; last first.
      by case=> i1 j1 [i2 j2] [-> ->].
    rewrite -sumrN; apply: eq_bigr => p _; rewrite -!natrM -prop natrM [z p.2 + z p.1]addrC; ident.
  by move/eqP; rewrite -subr_eq0 opprK -mulr2n mulrn_eq0.
rewrite sumE => /eqP sum0; apply: (proportional mk0 mk1) => v.
have := groups (u := fun p : 'I_K * 'I_K => s * (z p.1 + z p.2)) _ _ sum0 (s * v).
rewrite (eq_bigl (fun p : 'I_K * 'I_K => z p.1 + z p.2 == v)) => [|p]; last first.
  by rewrite (inj_eq (mulfI s0)).
apply=> p; first by apply: algM => //; apply: algD.
by apply: algM; [apply: algM; apply: alg_nat | apply: algB].
Qed.

(* ... for multisets of one size if and only if they are equal. *)
Corollary one_size (m m' : 'I_K -> nat) s : (0 < \sum_k m k)%N ->
  (\sum_k m k = \sum_k m' k)%N -> s != 0 -> alg s -> f m s = f m' s <-> m =1 m'.
Proof.
move=> n0 eqn s0 sa.
have some (c : 'I_K -> nat) : (0 < \sum_k c k)%N -> exists k, (0 < c k)%N.
  rewrite lt0n sum_nat_eq0 negb_forall => /existsP[k]; rewrite -lt0n; by exists k.
rewrite algebraic_temperatures //; try by apply: some; rewrite -?eqn.
split=> [prop i|e i j]; last by rewrite !e mulnC.
(* Add up over j. *)
apply/eqP; rewrite -(eqn_pmul2r n0) {1}eqn !big_distrr /=.
by apply/eqP; rewrite (eq_bigr _ (fun j _ => prop i j)); apply: eq_bigr => j _; rewrite mulnC.
Qed.

(* The id t of token c in a multiset; a set is a multiset with counts 0 and 1. *)
Definition id (beta w : R) c m := z c + w * f m (beta * z c).
Definition ind (S : {set 'I_K}) k : nat := k \in S.

(* Two largest exponents of kappa z over a set of at least two tokens. *)
Lemma two_largest (kappa : R) (S : {set 'I_K}) : kappa != 0 -> (1 < #|S|)%N ->
  exists k1 k2, [/\ k1 \in S, k2 \in S, kappa * z k2 < kappa * z k1 &
    forall k, k \in S -> k != k1 -> kappa * z k <= kappa * z k2].
Proof.
move=> kap0 /card_gt1P[a [b [aS bS ab]]].
have [k1 [k1S max1]] := top (fun k => kappa * z k) (P := mem S) aS.
have [c [cS ck]] : exists c, c \in S /\ c != k1.
  have [e|ne] := eqVneq a k1; last by exists a.
  by exists b; split; rewrite // -e eq_sym.
have [k2 [/andP[k2S k21] max2]] :=
  top (fun k => kappa * z k) (P := fun k => (k \in S) && (k != k1)) (introT andP (conj cS ck)).
exists k1, k2; split=> // [|k kS kk1]; last by apply: max2; rewrite kS.
rewrite lt_neqAle max1 // andbT; apply: contra k21 => /eqP/(mulfI kap0)/zI ->; exact: eqxx.
Qed.

(* The core of Theorem 14.10: the two largest exponents of (14.11) decide. *)
Lemma two_queries (S S' : {set 'I_K}) (kappa kappa' D w : R) k1 k2 l1 l2 :
  kappa != kappa' -> w != 0 ->
  (k1 \in S /\ k2 \in S) -> (l1 \in S' /\ l2 \in S') ->
  kappa * z k2 < kappa * z k1 -> kappa' * z l2 < kappa' * z l1 ->
  (forall k, k \in S -> k != k1 -> kappa * z k <= kappa * z k2) ->
  (forall k, k \in S' -> k != l1 -> kappa' * z k <= kappa' * z l2) ->
  kappa * z k1 - kappa * z k2 <= kappa' * z l1 - kappa' * z l2 ->
  (forall v, \sum_(p : 'I_K * 'I_K | kappa * z p.1 + kappa' * z p.2 == v)
     (ind S p.1)%:R * (ind S' p.2)%:R * (D + w * (z p.1 - z p.2)) = 0) -> False.
Proof.
move=> kk w0 [k1S k2S] [l1S l2S] k21 l21 maxk maxl pq zero.
have kmax k : k \in S -> kappa * z k <= kappa * z k1.
  by move=> kS; have [->|/(maxk k kS) le] := eqVneq k k1; rewrite ?(le_trans le) // ltW.
have lmax k : k \in S' -> kappa' * z k <= kappa' * z l1.
  by move=> kS; have [->|/(maxl k kS) le] := eqVneq k l1; rewrite ?(le_trans le) // ltW.
have iS (T : {set 'I_K}) k : k \in T -> (ind T k)%:R = 1 :> R by rewrite /ind => ->.
have i0 (T : {set 'I_K}) k : k \notin T -> (ind T k)%:R = 0 :> R by rewrite /ind => /negbTE ->.
have kk1 : k2 != k1 by apply: contraTneq k21 => ->; rewrite ltxx.
have ll1 : l2 != l1 by apply: contraTneq l21 => ->; rewrite ltxx.
have kap0 : kappa != 0 by apply: contraTneq k21 => ->; rewrite !mul0r ltxx.
have kap0' : kappa' != 0 by apply: contraTneq l21 => ->; rewrite !mul0r ltxx.
have zIk i j : kappa * z i = kappa * z j -> i = j by move/(mulfI kap0)/zI.
have zIl i j : kappa' * z i = kappa' * z j -> i = j by move/(mulfI kap0')/zI.
(* The largest exponent has one term: D + w (z_k1 - z_l1) = 0. *)
have first : D + w * (z k1 - z l1) = 0.
  have := zero (kappa * z k1 + kappa' * z l1).
  rewrite (bigD1 (k1, l1)) //= (iS _ _ k1S) (iS _ _ l1S) !mul1r big1 ?addr0 // => -[k l] /=.
  case/andP=> /eqP e ne; have [kS|/i0 ->] := boolP (k \in S); last by rewrite !mul0r.
  have [lS|/i0 ->] := boolP (l \in S'); last by rewrite mulr0 mul0r.
  have ek : k = k1.
    apply: zIk; apply/eqP; rewrite eq_le kmax //= -(ler_add2r (kappa' * z l1)) -e.
    by rewrite ler_add2l lmax.
  by rewrite ek in e ne; move/addrI: e => /zIl el; rewrite el eqxx in ne.
(* The exponent with k_2 and l_1 has one more term at most, that of k_1 and l_2. *)
have := zero (kappa * z k2 + kappa' * z l1).
rewrite (bigD1 (k2, l1)) //= (iS _ _ k2S) (iS _ _ l1S) !mul1r.
have rest k l : kappa * z k + kappa' * z l = kappa * z k2 + kappa' * z l1 ->
    k \in S -> l \in S' -> (k, l) != (k2, l1) ->
    (k, l) = (k1, l2) /\ kappa * z k1 - kappa * z k2 = kappa' * z l1 - kappa' * z l2.
  move=> e kS lS ne; have [ek|kne] := eqVneq k k1; last first.
    have ek : k = k2.
      apply: zIk; apply/eqP; rewrite eq_le maxk //= -(ler_add2r (kappa' * z l1)) -e.
      by rewrite ler_add2l lmax.
    by rewrite ek in e ne; move/addrI: e => /zIl el; rewrite el eqxx in ne.
  have e' : kappa * z k1 - kappa * z k2 = kappa' * z l1 - kappa' * z l.
    transitivity (kappa * z k + kappa' * z l - (kappa * z k2 + kappa' * z l)).
      by rewrite ek; ident.
    by rewrite e; ident.
  have lne : l != l1.
    apply: contraTneq k21 => el; rewrite -subr_gt0 e' el subrr ltxx //.
  have el : l = l2.
    apply: zIl; apply/eqP; rewrite eq_le maxl //=.
    by rewrite -(ler_add2l (- (kappa' * z l1))) -ler_opp2 !opprD !opprK -e'.
  by rewrite -el ek.
have [p_q|pneq] := eqVneq (kappa * z k1 - kappa * z k2) (kappa' * z l1 - kappa' * z l2).
  rewrite (bigD1 (k1, l2)) /=; last first.
    rewrite xpair_eqE [k1 == _]eq_sym (negbTE kk1) /= andbT; apply/eqP.
    by rewrite -[kappa * z k1](subrK (kappa * z k2)) p_q; ident.
  rewrite (iS _ _ k1S) (iS _ _ l2S) !mul1r big1 ?addr0 => [second|[k l] /= /andP[/andP[/eqP e n1]
    n2]].
    (* z_k1 - z_k2 = z_l1 - z_l2, so kappa = kappa'. *)
    have same : z k1 - z k2 = z l1 - z l2.
      apply/eqP; rewrite -subr_eq0 -(mulrI_eq0 _ (mulfI w0)); apply/eqP.
      transitivity (2%:R * (D + w * (z k1 - z l1)) -
        (D + w * (z k2 - z l1) + (D + w * (z k1 - z l2)))); first by ident.
      by rewrite first second mulr0 subrr.
    move/eqP: p_q; rewrite -!mulrBr same (inj_eq (mulIf _)) ?(negbTE kk) //.
    by rewrite -same subr_eq0; apply: contra kk1 => /eqP/zI ->.
  have [kS|/i0 ->] := boolP (k \in S); last by rewrite !mul0r.
  have [lS|/i0 ->] := boolP (l \in S'); last by rewrite mulr0 mul0r.
  by have [ekl _] := rest k l e kS lS n1; rewrite ekl eqxx in n2.
rewrite big1 ?addr0 => [second|[k l] /= /andP[/eqP e n1]].
  have /eqP : w * (z k1 - z k2) = 0.
    transitivity ((D + w * (z k1 - z l1)) - (D + w * (z k2 - z l1))); first by ident.
    by rewrite first second subrr.
  by rewrite mulf_eq0 (negbTE w0) subr_eq0 => /eqP/zI e; rewrite e eqxx in kk1.
have [kS|/i0 ->] := boolP (k \in S); last by rewrite !mul0r.
have [lS|/i0 ->] := boolP (l \in S'); last by rewrite mulr0 mul0r.
by have [_ epq] := rest k l e kS lS n1; rewrite epq eqxx in pneq.
Qed.

(* (14.11), grouped by exponents. *)
Lemma equal_ids (m m' : 'I_K -> nat) beta w c c' : (0 < m c)%N -> (0 < m' c')%N ->
  alg beta -> alg w -> id beta w c m = id beta w c' m' ->
  forall v, \sum_(p : 'I_K * 'I_K | beta * z c * z p.1 + beta * z c' * z p.2 == v)
    (m p.1)%:R * (m' p.2)%:R * (z c - z c' + w * (z p.1 - z p.2)) = 0.
Proof.
move=> mc mc' ab aw; rewrite /id; set s := beta * z c; set s' := beta * z c' => e.
have P0 := gt_eqF (mass_gt0 s mc); have P1 := gt_eqF (mass_gt0 s' mc').
apply: (groups (u := fun p : 'I_K * 'I_K => s * z p.1 + s' * z p.2)).
- have [as_ as'] : alg s /\ alg s' by split; apply: algM.
  by move=> p; apply: algD; apply: algM.
- move=> p; apply: algM; first by apply: algM; apply: alg_nat.
  by apply: algD; [apply: algB | apply: algM => //; apply: algB].
pose N m s := \sum_k (m k)%:R * (z k * exp (s * z k)).
transitivity ((z c - z c') * (mass m s * mass m' s') + w * (N m s * mass m' s')
   - w * (mass m s * N m' s')).
  rewrite /N /mass !big_distrlr /= !pair_bigA /= !mulr_sumr -big_split -sumrB /=.
  by apply: eq_bigr => p _; rewrite expD; ident.
have fN : N m s = f m s * mass m s by rewrite /f divfK ?P0.
have fN' : N m' s' = f m' s' * mass m' s' by rewrite /f divfK ?P1.
transitivity ((z c + w * f m s - (z c' + w * f m' s')) * (mass m s * mass m' s')).
  by rewrite fN fN'; ident.
by rewrite e subrr mul0r.
Qed.

(* Theorem 14.10 (Scalar ids). Tokens z_k different, nonzero, algebraic; sets of at least two. *)
Theorem scalar_ids beta w c c' (S S' : {set 'I_K}) : (forall k, z k != 0) ->
  alg beta -> beta != 0 -> alg w -> w != 0 -> (1 < #|S|)%N -> (1 < #|S'|)%N ->
  c \in S -> c' \in S' -> id beta w c (ind S) = id beta w c' (ind S') -> c = c' /\ S = S'.
Proof.
move=> z0 ab b0 aw w0 S2 S2' cS cS' e.
have pos (T : {set 'I_K}) k : k \in T -> (0 < ind T k)%N by rewrite /ind => ->.
have [ec|cc] := eqVneq c c'.
  (* Equal queries: Theorem 14.9. *)
  split=> //; rewrite -ec in e.
  have /algebraic_temperatures prop : f (ind S) (beta * z c) = f (ind S') (beta * z c).
    by apply: (mulfI w0); apply: (addrI (z c)).
  have {prop}prop : forall i j, (ind S i * ind S' j = ind S j * ind S' i)%N.
    apply: prop; [exists c; exact: pos|exists c'; exact: pos|by rewrite mulf_neq0|exact: algM].
  apply/setP => k; rewrite -ec in cS'; have := prop c k; rewrite /ind cS cS' mul1n muln1.
  by case: (k \in S) (k \in S') => -[].
exfalso; have zero := equal_ids (pos _ _ cS) (pos _ _ cS') ab aw e.
have kap k : beta * z k != 0 by rewrite mulf_neq0.
have kk : beta * z c != beta * z c' by rewrite (inj_eq (mulfI b0)) (inj_eq zI).
have [k1 [k2 [k1S k2S k21 maxk]]] := two_largest (kap c) S2.
have [l1 [l2 [l1S l2S l21 maxl]]] := two_largest (kap c') S2'.
have [le|lt] := leP (beta * z c * z k1 - beta * z c * z k2)
                    (beta * z c' * z l1 - beta * z c' * z l2).
  exact: (two_queries kk w0 (conj k1S k2S) (conj l1S l2S) k21 l21 maxk maxl le zero).
(* The other case with the two sets exchanged. *)
have kk' : beta * z c' != beta * z c by rewrite eq_sym.
have zero' := equal_ids (pos _ _ cS') (pos _ _ cS) ab aw (esym e).
exact: (two_queries kk' w0 (conj l1S l2S) (conj k1S k2S) l21 k21 maxl maxk (ltW lt) zero').
Qed.

Lemma f_le m s c b : (0 < m c)%N -> (forall k, z k <= b) -> f m s <= b.
Proof.
move=> mc zb; rewrite /f ler_pdivr_mulr ?(mass_gt0 s mc) // /mass mulr_sumr.
apply: ler_sum => k _; rewrite [b * _]mulrCA ler_wpmul2l ?ler0n // ler_wpmul2r // ltW //.
Qed.
Lemma f_ge m s c b : (0 < m c)%N -> (forall k, b <= z k) -> b <= f m s.
Proof.
move=> mc zb; rewrite /f ler_pdivl_mulr ?(mass_gt0 s mc) // /mass mulr_sumr.
apply: ler_sum => k _; rewrite [b * _]mulrCA ler_wpmul2l ?ler0n // ler_wpmul2r // ltW //.
Qed.

(* Proposition 14.11, second part: for small |w| all ids of multisets of one size differ. *)
Theorem small_weight beta w c c' (m m' : 'I_K -> nat) : (forall k, z k != 0) ->
  alg beta -> beta != 0 -> alg w -> w != 0 ->
  (forall i j k l, i != j -> `|w| * (z k - z l) < `|z i - z j|) ->
  (\sum_k m k = \sum_k m' k)%N -> (0 < m c)%N -> (0 < m' c')%N ->
  id beta w c m = id beta w c' m' -> c = c' /\ m =1 m'.
Proof.
move=> z0 ab b0 aw w0 small eqn mc mc' e.
have [ec|cc] := eqVneq c c'.
  split=> //; rewrite -ec in e; apply/(one_size (s := beta * z c)) => //.
  - by rewrite (bigD1 c) //= addn_gt0 mc.
  - by rewrite mulf_neq0.
  - exact: algM.
  by apply: (mulfI w0); apply: (addrI (z c)).
(* Ids of different queries lie in disjoint intervals. *)
exfalso; have [u [_ zu]] := top z (P := predT) (k0 := c) isT.
have [l [_ zl]] := top (fun k => - z k) (P := predT) (k0 := c) isT.
have {}zl k : z l <= z k by rewrite -ler_opp2 zl.
have := small c c' u l cc; rewrite ltNge => /negP; apply.
have -> : z c - z c' = w * (f m' (beta * z c') - f m (beta * z c)).
  transitivity (id beta w c m - w * f m (beta * z c) - z c'); first by rewrite /id; ident.
  by rewrite e /id; ident.
rewrite normrM ler_wpmul2l // ler_norml; apply/andP.
have fu := f_le (beta * z c) mc (fun k => zu k isT); have fl := f_ge (beta * z c) mc zl.
have fu' := f_le (beta * z c') mc' (fun k => zu k isT); have fl' := f_ge (beta * z c') mc' zl.
by rewrite opprB; split; apply: ler_sub.
Qed.
End Lindemann.

(* Proposition 14.11, first part: w = 2, token 1 in {1, 1, 4, 4} and token 2 in {1/2, 2, 2, 7/2}.
   The average of a list of numbers with weights e^(s x). *)
Section Repeated.
Variables (R : realFieldType) (exp : R -> R).
Hypothesis expD : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_gt0 : forall x, 0 < exp x.
Definition average (xs : seq R) s :=
  (\sum_(x <- xs) x * exp (s * x)) / \sum_(x <- xs) exp (s * x).
Theorem repeated beta :
  1 + 2%:R * average [:: 1; 1; 4%:R; 4%:R] (beta * 1) =
  2%:R + 2%:R * average [:: 2%:R^-1; 2%:R; 2%:R; 7%:R / 2%:R] (beta * 2%:R).
Proof.
(* y = e^(3 beta); the logits are beta, beta, 4 beta, 4 beta and beta, 4 beta, 4 beta, 7 beta. *)
pose e := exp beta; pose y := exp (3%:R * beta).
have h : 2%:R * 2%:R^-1 = 1 :> R by rewrite mulfV ?pnatr_eq0.
have E4 : exp (beta * 4%:R) = e * y by rewrite /e /y -expD; congr exp; ident.
have E4' : exp (beta * 2%:R * 2%:R) = e * y by rewrite -E4; congr exp; ident.
have E1 : exp (beta * 1 * 1) = e by rewrite !mulr1.
have E1' : exp (beta * 2%:R * 2%:R^-1) = e by rewrite -mulrA h mulr1.
have E7 : exp (beta * 2%:R * (7%:R / 2%:R)) = e * y * y.
  rewrite /e /y -!expD; congr exp; transitivity (beta * (2%:R * 2%:R^-1) * 7%:R); first by ident.
  by rewrite h; ident.
rewrite /average !big_cons !big_nil E1 E1' E4' E7 ?[beta * 1]mulr1 E4 -/e !addr0.
have e0 : 0 < e by apply: exp_gt0. have y0 : 0 < y by apply: exp_gt0.
set A := (X in 1 + 2%:R * (X / _)); set B := (X in 1 + 2%:R * (_ / X)).
set C := (X in _ = 2%:R + 2%:R * (X / _)); set D := (X in _ = 2%:R + 2%:R * (_ / X)).
have B0 : B != 0 by rewrite gt_eqF // /B; do ?[exact: e0|exact: y0|apply: addr_gt0|apply: mulr_gt0].
have D0 : D != 0 by rewrite gt_eqF // /D; do ?[exact: e0|exact: y0|apply: addr_gt0|apply: mulr_gt0].
(* Times both denominators. *)
apply: (mulIf (mulf_neq0 B0 D0)).
transitivity ((B + 2%:R * (A / B * B)) * D); first by ident.
transitivity ((2%:R * D + 2%:R * (C / D * D)) * B); last by ident.
rewrite !divfK // /A /B /C /D.
have -> : 2%:R * (2%:R^-1 * e + (2%:R * (e * y) + (2%:R * (e * y) + 7%:R / 2%:R * (e * y * y)))) =
  (2%:R * 2%:R^-1) * (e + 7%:R * (e * y * y)) + 8%:R * (e * y) by ident.
by rewrite h; ident.
Qed.
End Repeated.

(* ---- Proposition 14.12 (The near miss) ---- *)
Section NearMiss.
(* A real closed field with an exponential; the real numbers are one. *)
Variables (R : rcfType) (alg : R -> Prop) (exp ln : R -> R).
Hypothesis expD : forall x y, exp (x + y) = exp x * exp y.
Hypothesis exp_gt0 : forall x, 0 < exp x.
Hypothesis exp_ge : forall x, 1 + x <= exp x.
Hypothesis lnK : forall y, 0 < y -> exp (ln y) = y.
Hypothesis expK : forall x, ln (exp x) = x.
Hypothesis alg_nat : forall n : nat, alg n%:R.
Hypothesis algB : forall x y, alg x -> alg y -> alg (x - y).
Hypothesis algM : forall x y, alg x -> alg y -> alg (x * y).
(* The theorem of Lindemann: e^x is not algebraic for algebraic x other than 0, so it is no zero
   of a polynomial with whole coefficients that are not all zero. *)
Hypothesis Lindemann : forall x, alg x -> x != 0 -> forall (n : nat) (c : nat -> int),
  \sum_(i < n) (c i)%:~R * exp x ^+ i = 0 -> forall i, (i < n)%N -> c i = 0.

(* Sets seen from token 1: the logits are beta times the numbers. *)
Definition avg (xs : seq nat) beta :=
  (\sum_(x <- xs) x%:R * exp (beta * x%:R)) / \sum_(x <- xs) exp (beta * x%:R).
Definition A := [:: 1; 2; 5; 6]%N.
Definition B := [:: 1; 3; 4; 6]%N.
Definition h (x : R) := x ^+ 4 - 4%:R * x ^+ 3 + 4%:R * x ^+ 2 - 4%:R * x + 1.

Lemma exp0 : exp 0 = 1.
Proof. by apply: (mulIf (lt0r_neq0 (exp_gt0 0))); rewrite -expD mul1r addr0. Qed.
Lemma expn beta n : exp (beta * n%:R) = exp beta ^+ n.
Proof.
elim: n => [|n IH]; first by rewrite mulr0 exp0.
by rewrite -addn1 natrD mulrDr mulr1 expD IH addn1 exprSr.
Qed.

(* (14.13): the two averages agree at beta > 0 if and only if h(e^beta) = 0. *)
Lemma crossing beta : 0 < beta -> (avg A beta == avg B beta) = (h (exp beta) == 0).
Proof.
move=> b0; set x := exp beta; have x0 : 0 < x := exp_gt0 beta.
have x1 : 1 < x by apply: lt_le_trans (exp_ge beta); rewrite ltr_addl.
have pos (xs : seq nat) k : 0 < \sum_(y <- k :: xs) exp (beta * y%:R).
  by rewrite big_cons ltr_paddr // sumr_ge0 // => i _; apply: ltW.
rewrite /avg eqr_div ?lt0r_neq0 ?pos // -[LHS]subr_eq0 !big_cons !big_nil !expn -/x.
set T := (X in (X == 0) = _).
have -> : T = - (x ^+ 3 * (x - 1) * (x + 1) ^+ 3) * h x by rewrite /T /h; ident.
have y0 : 0 < x + 1 by rewrite addr_gt0 ?ltr01.
have nz : 0 < x ^+ 3 * (x - 1) * (x + 1) ^+ 3.
  by apply: mulr_gt0; [apply: mulr_gt0; [exact: exprn_gt0|rewrite subr_gt0]|exact: exprn_gt0].
by rewrite mulf_eq0 oppr_eq0 (gt_eqF nz).
Qed.

(* h(x) = x^2 (y^2 - 4y + 2), y = x + 1/x: the zero above 1 is the larger root of x^2 - Yx + 1,
   Y = 2 + sqrt 2. *)
Definition Y : R := 2%:R + Num.sqrt 2%:R.
Definition root : R := (Y + Num.sqrt (Y ^+ 2 - 4%:R)) / 2%:R.
Lemma r2 : Num.sqrt 2%:R ^+ 2 = 2%:R :> R. Proof. by rewrite sqr_sqrtr ?ler0n. Qed.
Lemma r2_gt0 : 0 < Num.sqrt 2%:R :> R. Proof. by rewrite sqrtr_gt0 ltr0n. Qed.
Lemma Y2 : 2%:R < Y. Proof. by rewrite ltr_addl r2_gt0. Qed.
Lemma Y4 : 0 < Y ^+ 2 - 4%:R.
Proof.
have -> : Y ^+ 2 - 4%:R = (Y - 2%:R) * (Y + 2%:R) by ident.
by rewrite mulr_gt0 // ?subr_gt0 ?Y2 // addr_gt0 ?ltr0n // (lt_trans _ Y2) ?ltr0n.
Qed.

Lemma h_root x : 1 < x -> (h x == 0) = (x == root).
Proof.
move=> x1; have x0 : 0 < x := lt_trans ltr01 x1.
pose Y' : R := 2%:R - Num.sqrt 2%:R.
have hE : h x = (x ^+ 2 - Y * x + 1) * (x ^+ 2 - Y' * x + 1).
  rewrite /h /Y /Y'; transitivity (x ^+ 4 - 4%:R * x ^+ 3 +
    (6%:R - (Num.sqrt 2%:R) ^+ 2) * x ^+ 2 - 4%:R * x + 1); last by ident.
  by rewrite r2; ident.
have other : x ^+ 2 - Y' * x + 1 != 0.
  have -> : x ^+ 2 - Y' * x + 1 = (x - 1) ^+ 2 + Num.sqrt 2%:R * x by rewrite /Y'; ident.
  by rewrite gt_eqF // ltr_paddl ?sqr_ge0 // mulr_gt0 ?r2_gt0.
rewrite hE mulf_eq0 (negbTE other) orbF.
have sq : Num.sqrt (Y ^+ 2 - 4%:R) ^+ 2 = Y ^+ 2 - 4%:R by rewrite sqr_sqrtr // ltW // Y4.
have two : 2%:R != 0 :> R by rewrite pnatr_eq0.
apply/eqP/eqP => [e|->].
  (* (2 x - Y)^2 = Y^2 - 4 and 2 x - Y = x - 1/x > 0. *)
  have d0 : 0 < 2%:R * x - Y.
    rewrite -(pmulr_rgt0 _ x0).
    have -> : x * (2%:R * x - Y) = (x ^+ 2 - Y * x + 1) + (x - 1) * (x + 1) by ident.
    by rewrite e add0r mulr_gt0 ?subr_gt0 // addr_gt0 ?ltr01.
  have : (2%:R * x - Y) ^+ 2 = Y ^+ 2 - 4%:R.
    transitivity (4%:R * (x ^+ 2 - Y * x + 1) + (Y ^+ 2 - 4%:R)); first by ident.
    by rewrite e mulr0 add0r.
  move=> /(congr1 Num.sqrt); rewrite sqrtr_sqr gtr0_norm // => es.
  by rewrite /root -es addrCA subrr addr0 mulrC mulKf.
rewrite /root; set r := Num.sqrt _ in sq *; apply: (mulfI two); apply: (mulfI two).
transitivity ((2%:R * ((Y + r) / 2%:R)) ^+ 2 - Y * 2%:R * (2%:R * ((Y + r) / 2%:R)) + 4%:R).
  by ident.
rewrite [2%:R * _]mulrC divfK //; transitivity (r ^+ 2 - (Y ^+ 2 - 4%:R)); first by ident.
by rewrite sq subrr !mulr0.
Qed.
Lemma root_gt1 : 1 < root.
Proof.
rewrite /root ltr_pdivl_mulr ?ltr0n // mul1r (lt_le_trans Y2) // ler_addl sqrtr_ge0 //.
Qed.

(* Proposition 14.12: equal averages at 0 and at exactly one positive beta, not algebraic. *)
Theorem near_miss : avg A 0 = avg B 0 /\ exists beta, [/\ 0 < beta,
  forall b, 0 < b -> (avg A b = avg B b <-> b = beta) & ~ alg beta].
Proof.
split; first by rewrite /avg !big_cons !big_nil !mul0r exp0; congr (_ / _); ident.
have x0 : 0 < root := lt_trans ltr01 root_gt1.
have b0 : 0 < ln root.
  have e : exp (ln root) = root := lnK x0.
  rewrite ltNge; apply/negP => le0.
  have : 1 <= exp (- ln root) by apply: le_trans (exp_ge _); rewrite ler_addl oppr_ge0.
  rewrite -(ler_pmul2l x0) -{2}e -expD subrr exp0 mulr1 leNgt; case/negP.
  exact: root_gt1.
have big b : 0 < b -> 1 < exp b by move=> bp; apply: lt_le_trans (exp_ge b); rewrite ltr_addl.
exists (ln root); split=> // [b bp|ab].
  split=> [/eqP|->]; last by apply/eqP; rewrite crossing // h_root ?big // lnK.
  by rewrite crossing // h_root ?big // => /eqP <-; rewrite expK.
pose c i : int := nth 0 [:: 1; - 4%:Z; 4%:Z; - 4%:Z; 1] i.
suff /(Lindemann ab (lt0r_neq0 b0))/(_ 0%N isT) : \sum_(i < 5) (c i)%:~R * exp (ln root) ^+ i = 0.
  by [].
rewrite lnK //; have : h root = 0 by apply/eqP; rewrite h_root ?root_gt1.
move: root => r hr; rewrite -[RHS]hr !big_ord_recl big_ord0 /c /= /bump /= /h.
by rewrite !add1n !rmorphN /= -?pmulrn ?mulr1z; ident.
Qed.
End NearMiss.
